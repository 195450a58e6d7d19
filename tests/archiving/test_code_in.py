"""Code and configuration that somebody may run is this release's, to the byte, or it is named, wherever it lies."""

from pathlib import Path

import pytest

from overlayccl_core.archiving import code_in as looked
from overlayccl_core.archiving.code_in import code_in
from overlayccl_core.archiving.findings import CheckOutcome
from tests.archiving.test_crate import SAID

HERE, OTHER = "1" * 40, "2" * 40
SAME = ("workflow_scripts/pipeline.py", "config/searches/command.yaml", "Snakefile")
FORGED = (
    *("workflow_scripts/stage.py", "overlayccl_core/evil.py", "run_display/evil.so", "rules/common.smk"),
    *(
        "profiles/local/profile.yaml",
        "envs/local.yaml",
        "config/searches/claude.yaml",
        "config/searches/evil.yaml",
    ),
)
PLUG_IN = "plugins/backends/mine/backend.py"
TAKEN = "overlayccl_core/gates/equivalence.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was unpacked; beside it a release that has the same, and a file that was taken out of the archive."""
    release, tmp_path = tmp_path / "release", tmp_path / "archive"
    monkeypatch.setattr(looked, "ROOT", release)
    monkeypatch.setattr(looked, "home", lambda: release)
    for name in (*SAME, TAKEN, "config/__pycache__/mine.pyc", "profiles/.mine.swp"):
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_bytes(b"this release's\n")
    (release / ".git").mkdir()
    for name in (*SAME, *FORGED, PLUG_IN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"this release's\n" if name in SAME else b"# coding: utf-7\n")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "here", "found"),
    [
        ((HERE, True), (HERE, True), CheckOutcome.WRONG),
        ((HERE, True), (HERE, False), CheckOutcome.WITHIN),  # what is here was changed
        ((HERE, False), (HERE, True), CheckOutcome.WITHIN),  # it says that it was changed
        ((OTHER, True), (HERE, True), CheckOutcome.WITHIN),
        (("", False), ("", False), CheckOutcome.WITHIN),
    ],
)
def test_every_file_that_is_not_this_releases_or_was_taken_out_is_named(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[str, bool],
    here: tuple[str, bool],
    found: CheckOutcome,
) -> None:
    monkeypatch.setattr(looked, "commit_of", lambda root: here)
    about = SAID.changed(commit=said[0], clean=said[1])
    outcomes = {one.subject: one.outcome for one in code_in(folder, about)}
    assert outcomes == {
        **dict.fromkeys(SAME, CheckOutcome.EXACT),
        **dict.fromkeys((*FORGED, TAKEN), found),
        PLUG_IN: CheckOutcome.WITHIN,  # one's own, which no commit need hold
    }
