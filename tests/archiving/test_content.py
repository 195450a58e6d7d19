"""What gets into an archive besides its tree."""

from pathlib import Path

from overlayccl_core.archiving.content import content_of
from overlayccl_core.archiving.packing import Link


def test_of_links_only_those_by_which_a_profile_is_found_are_held(tmp_path: Path) -> None:
    """One of another name might be taken for a package by the Python that is started there."""
    (tmp_path / "profiles" / "mine").mkdir(parents=True)
    targets = {
        "mine": "profiles/mine",
        "numpy": "profiles/mine",
        "yaml": "profiles/../results",
        "out": "/etc",
    }
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)
    assert content_of(Path("results/local"), tmp_path, tmp_path) == {"mine": Link("profiles/mine")}
