"""What an archive of a results tree holds: the tree, how each file was made, and the code that made it."""

from pathlib import Path

from overlayccl_core.archiving.packing import Link
from overlayccl_core.digest import ROOT
from overlayccl_core.tables import published, records

PROJECT = (
    "Snakefile",
    "rules",
    "config",
    "profiles",
    "envs",
    "plugins",
)  # of the folder in which Snakemake ran
CODE = ("overlayccl_core", "workflow_scripts", "run_display")  # of where Python finds it
LEFT_OUT = (
    *("__pycache__", ".partial"),  # what was compiled; launches of jobs that have not ended
    published.EARLIER,  # no job of this run made it
)
PROGRESS = ".progress.json"


def content_of(tree: Path, root: Path = Path(), code: Path = ROOT) -> dict[str, Path | Link]:
    """Name in the archive -> file. tree: `results/<tree>`, below `root`. code: what holds the packages."""
    found: dict[str, Path | Link] = {}
    for folder, parts in ((root, (*PROJECT, tree.as_posix())), (code, CODE)):
        for part in parts:
            found |= {path.relative_to(folder).as_posix(): path for path in files_of(folder / part)}
    made = [records.place_of(Path(name)) for name in found if Path(name).is_relative_to(tree)]
    found |= {place.as_posix(): root / place for place in made if (root / place).is_file()}
    links = (path for path in root.iterdir() if path.is_symlink())
    found |= {  # by which a profile is found by its name; no other, which Python might take for a package
        path.name: Link(path.readlink().as_posix())
        for path in links
        if path.readlink() == Path("profiles", path.name)
    }
    return found


def files_of(path: Path) -> list[Path]:
    """A file, or those of a folder that an archive holds."""
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file() and not _is_left_out(file.relative_to(path))]


def _is_left_out(below: Path) -> bool:
    hidden = below.name.startswith(".") or below.name.endswith(PROGRESS)
    return hidden or not set(LEFT_OUT).isdisjoint(below.parts)
