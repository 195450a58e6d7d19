"""README's blocks, of made-up figures; tests/workflow/test_archive.py makes them of a real run's archive."""

import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from docs import paper
from overlayccl_core.archiving.jobs import JobRecord
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.cli import verify
from overlayccl_core.report.tree import Tree, trees_of
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.fidelity import FIDELITY
from tests.report.fixture_rows import changed
from tests.report.fixture_tree import write_tree
from tests.report.test_worth import beside, deployed, instead, rival, worth

ROOT = Path(__file__).parents[2]
BESIDE_DEVELOPER = deployed(1), beside(1, "developer", 2.0, 1.8, 2.2)
BY_HAND = deployed(1, ran_as="best_known_way", needs_search=False), BESIDE_DEVELOPER[1]
LAST = "local.tar.zst: nothing is wrong (87 s)"


def archive(place: Path, *worths: Worth) -> paper.Archive:
    """A file of some bytes, with what these models gained."""
    (place / "made.parquet").write_bytes(b"")
    file = place / "local.tar.zst"
    file.write_bytes(b"some bytes")
    job = JobRecord(
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
    said = Manifest(
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
    """A search found what is deployed, beside best known way at M = 1."""
    return worth(deployed(), rival(1, "best_known_way", *gain))


def test_what_a_search_found_and_is_not_faster_is_named(tmp_path: Path) -> None:
    of = archive(tmp_path, found(0.93, 0.85, 1.0))
    said = list(paper.outcomes(of, ""))[-1]
    assert "not faster beyond noise than the best known way: nano (best known way at M = 1)." in said
    assert "Earlier launches chose the deployed ways" in said


def test_what_is_faster_or_what_people_write_is_not_named_so(tmp_path: Path) -> None:
    by_hand = worth(
        deployed(ran_as="hand_bundled", needs_search=False),
        rival(1, "best_known_way", 0.93, 0.85, 1.0),
        chosen="hand_bundled",
    )
    for one in (found(1.3, 1.2, 1.4), by_hand):
        assert "not faster" not in list(paper.outcomes(archive(tmp_path, one), ""))[-1]


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (worth(*BESIDE_DEVELOPER, rival(1, "hand_bundled", 1.3, 1.2, 1.4)), "takes 1.30 (1.20..1.40) times"),
        (worth(*BY_HAND, rival(1, "hand_bundled", 1.3, 1.2, 1.4)), "(*no search needed*)."),
        (worth(*BY_HAND, rival(1, "hand_bundled", 0.9, 0.7, 1.2)), "takes 0.90 (0.70..1.20) times"),
    ],
)
def test_a_row_of_the_verdict_is_told_in_words(tmp_path: Path, of: Worth, told: str) -> None:
    (said,) = paper.row(archive(tmp_path, of), "nano")
    assert "take 2.00 (1.80..2.20) times as long" in said and told in said
    assert ("its calls are a known way" in said) is of.known


def test_a_row_without_ratios_is_no_example(tmp_path: Path) -> None:
    for of in (found(1.3, 1.2, 1.4), worth(*BESIDE_DEVELOPER, instead(1, "ddp_25", 0.8, 0.7, 0.9))):
        with pytest.raises(ValueError, match="another one is an example"):
            list(paper.row(archive(tmp_path, of), "nano"))


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
        paper.filled(page, [archive(tmp_path, found(1.3, 1.2, 1.4))])


def test_how_right_the_model_was_is_a_range_over_several_runs(tmp_path: Path) -> None:
    whole = write_tree(tmp_path / "one", problems=("tp_mlp",), data=False)
    shutil.copytree(whole, other := tmp_path / "other")
    changed(
        other, FIDELITY, "problems/tp_mlp/fidelity", lambda f: f.with_columns(median_rel_error=pl.lit(0.77))
    )
    one = replace(archive(tmp_path), tree=Tree(path=whole))
    for of, runs in ((one, 1), (replace(one, others=trees_of([other])), 2)):
        rows = list(paper.rightness(of, ""))
        ((_, _, cases, error, *_, beyond, _),) = (row.split("|") for row in rows if "`tp_mlp`" in row)
        places = int(cases)
        assert error.strip().endswith("..77.0%") is (runs == 2) and beyond.strip().endswith(
            f"of {places * runs}"
        )
        assert rows[-1].startswith(f"The least and the largest of {runs} run")


def test_a_known_way_has_no_number_and_what_takes_a_place_is_named(tmp_path: Path) -> None:
    by_hand = worth(
        deployed(ran_as="hand_bundled", needs_search=False),
        rival(1, "developer", 1.4, 1.2, 1.6),
        chosen="hand_bundled",
    )
    kept = worth(deployed(), instead(1, "ddp_25", 0.8, 0.7, 0.9))
    for one, told in (
        (by_hand, "| no search needed (developer at M = 1, 140 ms, 12 MiB) | - | a known way |"),
        (kept, "slower (torch DDP, 25 MiB at M = 1, 80 ms, 12 MiB) | - | keep torch DDP (25 MiB) |"),
    ):
        _, _, row, _, said = paper.outcomes(archive(tmp_path, one), "")
        assert row.endswith(told) and said.startswith("In 0 of 1 model")


def test_a_page_may_have_figures_of_several_archives(tmp_path: Path) -> None:
    """Of a tree without an archive there are none."""
    archives = []
    for tree, gain in (("local", 1.3), ("two-tier", 1.7)):
        (tmp_path / tree).mkdir()
        archives.append(archive(tmp_path / tree, found(gain, gain - 0.1, gain + 0.1)))
    blocks = "<!-- paper: verdict -->\n<!-- end -->\n<!-- paper@two-tier: verdict -->\n<!-- end -->\n"
    first, second, _ = paper.filled(blocks, archives).split("<!-- end -->\n")
    assert "1.30" in first and "1.70" not in first and "1.70" in second
    with pytest.raises(ValueError, match="figures of the tree nowhere: name its archive"):
        paper.filled("<!-- paper@nowhere: verdict -->\n<!-- end -->", archives)
