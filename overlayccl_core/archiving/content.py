"""Content of an archive: the results tree, the record of each file, and the code that made it."""

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
)  # in the folder of the Snakemake run
CODE = ("overlayccl_core", "workflow_scripts", "run_display")  # in the folder of the packages
LEFT_OUT = (
    *("__pycache__", ".partial"),  # compiled files; launches of unfinished jobs
    published.EARLIER,  # no job of this run made it
)
PROGRESS = ".progress.json"


def content_of(tree: Path, root: Path = Path(), code: Path = ROOT) -> dict[str, Path | Link]:
    """Return name in the archive -> file. tree: `results/<tree>`, below `root`. code: folder of the packages."""
    found: dict[str, Path | Link] = {}
    for folder, parts in ((root, (*PROJECT, tree.as_posix())), (code, CODE)):
        for part in parts:
            found |= {path.relative_to(folder).as_posix(): path for path in files_of(folder / part)}
    made = [records.record_path(Path(name)) for name in found if Path(name).is_relative_to(tree)]
    found |= {place.as_posix(): root / place for place in made if (root / place).is_file()}
    links = (path for path in root.iterdir() if path.is_symlink())
    found |= {  # for `--profile NAME`; Python might import from any other link
        path.name: Link(path.readlink().as_posix())
        for path in links
        if path.readlink() == Path("profiles", path.name)
    }
    return found


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a folder that belong in an archive."""
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file() and not _is_left_out(file.relative_to(path))]


def _is_left_out(below: Path) -> bool:
    hidden = below.name.startswith(".") or below.name.endswith(PROGRESS)
    return hidden or not set(LEFT_OUT).isdisjoint(below.parts)
