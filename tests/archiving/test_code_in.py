"""Code that somebody may run is this release's, or is named: wherever it lies, whether a digest holds it or not."""

from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.archiving.code_in import Claim, _as_here, code_in
from overlayccl_core.archiving.content import CODE
from overlayccl_core.archiving.findings import Outcome
from overlayccl_core.archiving.said import versions
from overlayccl_core.digest import ROOT
from tests.archiving.test_crate import SAID

HERE, OTHER = "1" * 40, "2" * 40
OURS = replace(SAID, version="1.0", commit=HERE, clean=True)


@pytest.mark.parametrize(
    ("about", "mine", "same_code", "claimed"),
    [
        (OURS, (HERE, True), True, (True, True)),
        (OURS, (HERE, False), True, (False, False)),  # what is here was changed
        (OURS, (OTHER, True), True, (False, False)),
        (OURS, ("", False), True, (False, True)),  # a wheel: the commit may be of whoever used it
        (OURS, ("", False), False, (False, False)),  # another state of the same version
        (replace(OURS, clean=False), (HERE, True), True, (False, False)),  # it says that it was changed
        (replace(OURS, version="0.9"), (HERE, True), True, (False, False)),
        (replace(OURS, commit="", clean=False), (HERE, True), True, (False, True)),
    ],
)
def test_what_an_archive_claims(about, mine, same_code, claimed) -> None:
    claim = Claim.of(about, "1.0", *mine, same_code=same_code)
    assert (claim.commit, claim.packages) == claimed


@pytest.mark.parametrize(
    ("name", "known", "by_commit", "by_packages"),
    [
        ("workflow_scripts/pipeline.py", True, True, True),
        ("overlayccl_core/evil.py", False, True, True),
        ("overlayccl_core/problems/dist_ce.py", True, True, True),
        ("overlayccl_core/problems/mine.py", False, True, False),  # a plug-in of one's own
        ("overlayccl_core/problems_mine.py", False, True, True),
        ("Snakefile", True, True, False),  # of a project of one's own
        ("profiles/trn1/profile.yaml", True, True, False),
        ("plugins/strategies/mine.py", False, False, False),
    ],
)
def test_what_is_refuted_by_it(name: str, known: bool, by_commit: bool, by_packages: bool) -> None:
    assert Claim(commit=True, packages=True).refutes(name, known) is by_commit
    assert Claim(commit=False, packages=True).refutes(name, known) is by_packages
    assert not Claim(commit=False, packages=False).refutes(name, known)


def test_every_file_is_looked_at_to_the_byte(tmp_path: Path) -> None:
    same = (ROOT / "workflow_scripts/pipeline.py").read_bytes()
    for name, data in {"pipeline.py": same, "fit.py": b"# coding: utf-7\n", "evil.so": b"\x7fELF"}.items():
        file = tmp_path / "workflow_scripts" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    for claim, outcome in ((True, Outcome.WRONG), (False, Outcome.WITHIN)):
        found = _as_here(tmp_path, ROOT, CODE, Claim(commit=claim, packages=claim))
        assert {one.subject.removeprefix("workflow_scripts/"): one.outcome for one in found} == {
            "pipeline.py": Outcome.EXACT,
            "fit.py": outcome,
            "evil.so": outcome,
        }


@pytest.mark.parametrize(
    "name",
    [
        *(
            "workflow_scripts/pipeline.py",
            "overlayccl_core/evil.py",
            "run_display/handler.py",
            "rules/common.smk",
        ),
        *("profiles/local/profile.yaml", "envs/local.yaml", "plugins/backends/mine/backend.py", "Snakefile"),
    ],
)
def test_code_of_no_job_is_looked_at(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("somebody's\n")
    about = replace(SAID, version=versions()["version"], commit="", clean=False)
    (found,) = code_in(tmp_path, about, [], [])
    assert found.subject == name
    in_packages = name.startswith(CODE) and "plugins" not in name
    assert found.outcome is (Outcome.WRONG if in_packages else Outcome.WITHIN)
