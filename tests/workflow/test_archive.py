"""A real run's archive is verified by who was not there, and says what the run said."""

import hashlib
import re
from itertools import takewhile
from pathlib import Path

import polars as pl
import pytest

from docs import paper
from overlayccl_core.archiving import packing
from overlayccl_core.archiving.findings import Check, CheckOutcome
from overlayccl_core.archiving.verify import verify
from overlayccl_core.cli.main import main
from overlayccl_core.cli.render import percent
from overlayccl_core.report.blocks import ms
from overlayccl_core.rule import targets
from tests.archiving.forging import wrong
from tests.archiving.validator import validated
from tests.workflow.repository import ROOT, snakemake

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(1800)]  # of the run that is archived
TREE = Path("results/local")


def test_all_of_it_is_verified(archive: Path) -> None:
    """Up to what is made again, which test_forged.py looks at, in an archive with harmless changes."""
    looks = verify(archive, 2, lambda line: None)
    found = list(takewhile(lambda one: one.check is not Check.MEASURED, looks))
    assert not wrong(found)
    of = {check: {one.outcome for one in found if one.check is check} for check in Check}
    for check in (Check.BYTES, Check.MANIFEST, Check.TABLES, Check.PROOFS, Check.COMPLETE, Check.CONSISTENT):
        assert of[check] == {CheckOutcome.EXACT}, check
    asked = (one for one in found if one.check is Check.CONFIGURATION)
    unasked = {one.subject.split()[0] for one in asked if one.outcome is CheckOutcome.COULD_NOT}
    assert {"known_ways-uniform_a2a", "longtrain-tiny"} <= unasked  # other commands made them


def test_the_public_validator_accepts_its_manifest(archive: Path, tmp_path: Path) -> None:
    done = validated(packing.unpack(archive, tmp_path / "archive"), tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


PAGE = """before
<!-- paper: worth tiny -->
what stood there
<!-- end -->
<!-- paper: reading tiny -->
<!-- end -->
<!-- paper: outcomes -->
<!-- end -->
<!-- paper: rightness -->
<!-- end -->
<!-- paper: took -->
<!-- end -->
<!-- paper: source -->
<!-- end -->
after
"""


def test_a_pages_figures_are_those_of_the_archive(archive: Path, finished: Path, tmp_path: Path) -> None:
    opened = paper.opened(archive, tmp_path, "local.tar.zst: nothing is wrong (7 s)")
    page = paper.filled(PAGE, [opened])
    assert page.startswith("before\n") and page.endswith("<!-- end -->\nafter\n") and "what stood" not in page
    assert paper.filled(page, [opened]) == page  # blocks stay blocks
    blocks = page.split("<!-- end -->")
    (worth,) = opened.tree.worths
    assert worth.deployed is not None and worth.developer is not None
    for row in paper.screen(worth):
        assert row in blocks[0]
    assert f"fastest at M = {worth.developer.microbatches}" in blocks[1]
    assert f"| `tiny` | {ms(worth.deployed.step_us)}, " in blocks[2] and "of 1 model " in blocks[2]
    judged = pl.read_parquet(finished / TREE / "problems/tp_mlp/fidelity.parquet")
    errors = judged.drop_nulls("case")["median_rel_error"]  # without that of the whole Problem
    assert f"`tp_mlp` | {len(errors)} | {percent(errors.min())}" in blocks[3]
    of_all = [job for job in opened.jobs if not re.match(rf"{TREE}/({'|'.join(targets())})/", job.outputs[0])]
    assert 0 < len(of_all) < len(opened.jobs) and f"for {len(of_all)} jobs" in blocks[4]
    assert f"sha256 `{hashlib.sha256(archive.read_bytes()).hexdigest()}`" in blocks[5]
    assert "says last: `local.tar.zst: nothing is wrong (7 s)`." in blocks[5]
    with pytest.raises(ValueError, match="no block 'worht'"):
        paper.filled("<!-- paper: worht tiny -->\n<!-- end -->", [opened])
    with pytest.raises(ValueError, match=r"no model nano: tiny"):
        paper.filled("<!-- paper: worth nano -->\n<!-- end -->", [opened])
    paper.photograph(opened.tree.path / "report.html", tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_readmes_blocks_are_those_that_an_archive_fills() -> None:
    text = "\n".join((ROOT / page).read_text() for page in paper.PAGES)
    blocks = paper.BLOCK.findall(text)
    assert {name for _, _, name, _, _ in blocks} == set(paper.BLOCKS)
    assert not re.search(r"<!-- paper.*-->\n<!-- end -->", text)  # none is empty
    assert all((ROOT / picture).read_bytes().startswith(b"\x89PNG") for picture in paper.PICTURES)
    assert text.count("<!-- paper") == len(blocks)


def test_the_same_tree_gives_the_same_bytes(finished: Path, archive: Path) -> None:
    before = archive.read_bytes()
    done = snakemake(finished, "--profile", "local", "archive", "--force")
    assert done.returncode == 0, done.stderr
    assert archive.read_bytes() == before


def test_unpacked_on_another_machine_nothing_is_to_be_done(archive: Path, tmp_path: Path) -> None:
    folder = packing.unpack(archive, tmp_path)
    (folder / "sitecustomize.py").write_text("import platform\nplatform.release = lambda: '9.9'\n")
    done = snakemake(folder, "--profile", "local", "-n", "all")
    assert "Nothing to be done" in done.stdout + done.stderr, done.stdout + done.stderr
    assert "on another machine" in done.stdout + done.stderr


def test_a_changed_byte_is_found_wherever_it_is(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    file = tmp_path / archive.name
    for place in (0, 4, 5, 7, len(data) // 3, len(data) // 2, len(data) - 5, len(data) - 1):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        found = next(one for one in verify(file, 2, lambda line: None) if one.outcome is CheckOutcome.WRONG)
        assert found.check in (Check.BYTES, Check.MANIFEST), (place, found)


def test_two_runs_lie_side_by_side(finished: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(archive), str(finished / TREE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    fitted = pl.read_parquet(finished / TREE / "theta.parquet").filter(status="fitted")
    (row,) = (line for line in lines if line.split()[:1] == [fitted["feature"][0]])
    assert row.rstrip().endswith(" 1")  # B / A, and no * behind it
    chosen = pl.read_parquet(finished / TREE / "problems/tp_mlp/choice.parquet")
    same = [line for line in lines if line.rstrip().endswith("=") and not line.rstrip().endswith("M =")]
    assert len(same) == chosen.height
    assert any(line.split()[:1] == ["tiny"] for line in lines)
    assert main(["compare", str(archive), str(finished / "nowhere")]) == 2
    assert "no such archive" in capsys.readouterr().err
