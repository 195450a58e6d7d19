"""Place of the pipeline's own files: in a clone beside the package, else installed by the wheel."""

import filecmp
import shutil
import stat
import sysconfig
from pathlib import Path

from overlayccl_core import loader

RULES = ("Snakefile", "rules")  # of this version of the package
PROFILES = "profiles"
PARTS = (*RULES, "config", PROFILES, "envs", "examples")
ROOT = Path(__file__).resolve().parents[1]
SHARE = "share/overlayccl"
CACHE = "__pycache__"
UNLINKED = "default"  # the folder in profiles/ all others build on
MAY_BE_THERE = {".git"}
IGNORED = "/results/\n/logs/\n/.snakemake/\n__pycache__/\n*.tmp\n"  # by git


def home() -> Path:
    """Return the folder with PARTS. FileNotFoundError if an installation lacks them."""
    user = sysconfig.get_path("data", sysconfig.get_preferred_scheme("user"))
    places = (ROOT, Path(sysconfig.get_path("data")) / SHARE, Path(user) / SHARE)
    found = next((place for place in places if (place / PARTS[0]).is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"the pipeline's files are not there: no {PARTS[0]} in {' or '.join(map(str, places))}. Install again"
        )
    return found


def lay(folder: Path, own: tuple[str, ...]) -> list[Path]:
    """Lay a project of your own into a folder empty but for git's; return the paths to edit.

    Args:
        own: Problems with strategies to copy, and add to.

    Raises:
        ValueError: There is something in the folder, or a Problem does not exist.
    """
    sources = [loader.path(loader.READ, name) for name in own]
    if folder.exists() and (not folder.is_dir() or {one.name for one in folder.iterdir()} - MAY_BE_THERE):
        raise ValueError(
            f"{folder}: there is something already: name a folder that is empty, or not there yet"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        _lay(home() / part, folder / part)
    for profile in sorted((folder / PROFILES).iterdir()):
        if profile.name != UNLINKED:
            link(folder, profile.name)
    (folder / ".gitignore").write_text(IGNORED)
    strategies = folder / loader.OF_PROJECT / loader.READ
    strategies.mkdir(parents=True)
    for source in sources:
        _lay(source, strategies / source.name)
    return [folder / "config" / "config.yaml", folder / "config" / "deployments", strategies]


def is_linked(folder: Path, profile: str) -> bool:
    """Return whether `snakemake --profile NAME` finds a profile of PROFILES from the project's folder."""
    there, wanted = folder / profile, folder / PROFILES / profile
    return there.exists() and wanted.exists() and there.samefile(wanted)


def link(folder: Path, profile: str) -> None:
    """Let `snakemake --profile NAME` find a profile of PROFILES: Snakemake looks for it in the project's folder.

    Raises:
        ValueError: Something else has that name there.
    """
    if is_linked(folder, profile):
        return
    place = folder / profile
    if place.exists() or place.is_symlink():
        raise ValueError(
            f"{place} is something else than profile {profile}: give the folder in {PROFILES}/ another name"
        )
    place.symlink_to(Path(PROFILES, profile))


def _lay(source: Path, target: Path) -> None:
    """Copy, and let the owner write: an installation shared by many is often read-only."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(CACHE))
    else:
        shutil.copy(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def other_rules(folder: Path) -> list[Path]:
    """Return a project's files of RULES missing, or unlike the installed package's."""
    if not (folder / PARTS[0]).is_file():
        return []
    sources = [
        file for part in RULES for file in (home() / part, *(home() / part).rglob("*")) if file.is_file()
    ]
    files = [file.relative_to(home()) for file in sorted(sources) if file.parent.name != CACHE]
    return [file for file in files if not _equal(home() / file, folder / file)]


def _equal(one: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
