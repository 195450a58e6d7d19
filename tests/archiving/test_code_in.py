"""Code and configuration that somebody may run is this release's, to the byte, or it is named, wherever it lies."""

from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.archiving import code_in as looked
from overlayccl_core.archiving.code_in import code_in
from overlayccl_core.archiving.findings import Outcome
from overlayccl_core.digest import ROOT
from tests.archiving.test_crate import SAID

HERE, OTHER = "1" * 40, "2" * 40
SAME = ("workflow_scripts/pipeline.py", "config/searches/command.yaml", "Snakefile")
FORGED = (
    *("workflow_scripts/fit.py", "overlayccl_core/evil.py", "run_display/evil.so", "rules/common.smk"),
    *(
        "profiles/local/profile.yaml",
        "envs/local.yaml",
        "config/searches/claude.yaml",
        "config/searches/evil.yaml",
    ),
)
PLUG_IN = "plugins/backends/mine/backend.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*SAME, *FORGED, PLUG_IN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes() if name in SAME else b"# coding: utf-7\n")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "here", "found"),
    [
        ((HERE, True), (HERE, True), Outcome.WRONG),
        ((HERE, True), (HERE, False), Outcome.WITHIN),  # what is here was changed
        ((HERE, False), (HERE, True), Outcome.WITHIN),  # it says that it was changed
        ((OTHER, True), (HERE, True), Outcome.WITHIN),
        (("", False), ("", False), Outcome.WITHIN),
    ],
)
def test_every_file_that_is_not_this_releases_is_named(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[str, bool],
    here: tuple[str, bool],
    found: Outcome,
) -> None:
    monkeypatch.setattr(looked, "commit_of", lambda root: here)
    about = replace(SAID, commit=said[0], clean=said[1])
    outcomes = {one.subject: one.outcome for one in code_in(folder, about)}
    assert outcomes == {
        **dict.fromkeys(SAME, Outcome.EXACT),
        **dict.fromkeys(FORGED, found),
        PLUG_IN: Outcome.WITHIN,  # one's own, which no commit need hold
    }
