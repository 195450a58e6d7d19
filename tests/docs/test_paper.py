"""README's blocks, of made-up figures; tests/workflow/test_archive.py makes them of a real run's archive."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from docs import paper
from overlayccl_core.archiving.jobs import Job
from overlayccl_core.archiving.said import Said
from overlayccl_core.cli import verify
from overlayccl_core.report.tree import Tree
from overlayccl_core.report.worth import Worth
from tests.report.test_worth import deployed, rival, worth

ROOT = Path(__file__).parents[2]
LAST = "local.tar.zst: nothing is wrong (87 s)"


def archive(place: Path, *worths: Worth) -> paper.Archive:
    """A file of some bytes, with what these models gained."""
    (place / "made.parquet").write_bytes(b"")
    file = place / "local.tar.zst"
    file.write_bytes(b"some bytes")
    job = Job(
        name="probe",
        rule="probe",
        command="",
        code="",
        parameters=(),
        inputs=(),
        outputs=("",),
        started=0.0,
        ended=1.0,
        nodes=1,
    )
    said = Said(
        tree="local",
        command="",
        config={},
        machine="",
        commit="0123456789abcdef",
        clean=True,
        measuring=(),
        nodes=1,
        version="",
        snakemake="",
        zstandard="",
    )
    tree = Tree(path=place, kept={"worths": (worths, frozenset())})
    return paper.Archive(file=file, tree=tree, said=said, jobs=(job,), verified=LAST)


def found(*gain: float) -> Worth:
    """A search found what is deployed, beside best seed at M = 1."""
    return worth(deployed(), rival(1, "best_seed", *gain))


def test_what_a_search_found_and_is_not_faster_is_named(tmp_path: Path) -> None:
    of = archive(tmp_path, found(0.93, 0.85, 1.0))
    said = list(paper.outcomes(of, ""))[-1]
    assert "not faster beyond noise than the best that needs no search: nano (best seed at M = 1)." in said
    assert "chosen by earlier launches" in said


def test_what_is_faster_or_what_people_write_is_not_named_so(tmp_path: Path) -> None:
    by_hand = worth(
        deployed(ran_as="hand_bundled", needs_search=False),
        rival(1, "best_seed", 0.93, 0.85, 1.0),
        chosen="hand_bundled",
    )
    for one in (found(1.3, 1.2, 1.4), by_hand):
        assert "not faster" not in list(paper.outcomes(archive(tmp_path, one), ""))[-1]


def test_an_archive_is_told_so_that_it_can_be_checked(tmp_path: Path) -> None:
    (said,) = paper.source(archive(tmp_path), "")
    assert f"(10 bytes), sha256 `{hashlib.sha256(b'some bytes').hexdigest()}`" in said
    assert said.endswith(f"`overlayccl verify` says last: `{LAST}`.")


def test_nothing_is_written_of_an_archive_in_which_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify, "told", lambda file, workers: (2, "local.tar.zst: 2 things are wrong (3 s)"))
    monkeypatch.setattr(paper, "opened", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(ValueError, match="2 things are wrong"):
        paper.main(["local.tar.zst"])


def test_an_archive_that_is_none_is_one_message(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "docs.paper", str(tmp_path / "none.tar.zst")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert "there is no such file" in done.stderr and "Traceback" not in done.stderr


def test_an_archive_without_the_models_of_a_page_names_those_that_it_has(tmp_path: Path) -> None:
    page = "<!-- paper: worth nano-pp -->\n<!-- end -->\n"
    with pytest.raises(ValueError, match="no model nano-pp: nano"):
        paper.filled(page, archive(tmp_path, found(1.3, 1.2, 1.4)))
