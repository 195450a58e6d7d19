"""A search that asks, in the DAG: what was sketched is run, what fails there is asked about in a second round."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
import yaml

from overlayccl_core.archiving import replay
from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.archiving.jobs import jobs_of
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import Table, read
from overlayccl_core.tables.trials import TRIALS
from tests.archiving.forging import rewritten
from tests.workflow.repository import ROOT, copy_to, snakemake
from tests.workflow.small import SMALL

pytestmark = pytest.mark.timeout(1800)  # a minute or two, if alone
TREE = Path("results/local/problems/grad_ar")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config/config.yaml"
    fields = {"problems": ["grad_ar"], "models": [], "cases": {"grad_ar": [{"sizes": [7, 64, 1, 33]}]}}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL | fields))
    shutil.copy(root / "tests/workflow/made_up.py", root / "sitecustomize.py")
    return root


ANSWERED = ("proposer=command", f"command={sys.executable} {ROOT / 'examples/answer.py'}")


def run(root: Path, *more: str, config: Sequence[str] = ANSWERED) -> None:
    done = snakemake(root, "--profile", "local", f"{TREE}/shortlist.parquet", *more, "--config", *config)
    assert done.returncode == 0, done.stdout + done.stderr


def of(root: Path, table: Table, name: str) -> pl.DataFrame:
    return read(table, root / TREE / "search" / name / f"{table.name}.parquet")


def test_where_every_sketch_runs_the_second_round_is_there_and_empty(root: Path) -> None:
    run(root)
    assert sorted(p.name for p in (root / TREE / "search").iterdir()) == [
        "command",
        "command-repair1",
        "offline",
    ]
    assert not (root / TREE / "search/offline/trials.parquet").exists()
    assert set(of(root, TRIALS, "command")["status"]) == {"right_values"}
    assert set(of(root, SEARCH_ENDS, "command-repair1")["why"]) == {"none_failed"}
    assert (
        of(root, CANDIDATES, "command-repair1").is_empty() and of(root, CALLS, "command-repair1").is_empty()
    )
    listed = read(SHORTLIST, root / TREE / "shortlist.parquet")
    assert "sketch" in set(listed["origin"])


def test_what_money_there_is_matters_to_searches_that_ask_alone(root: Path) -> None:
    target = f"{TREE}/search/offline/candidates.parquet"
    done = snakemake(root, "--profile", "local", target, "-n", "--config", "max_usd=5")
    assert done.returncode == 0 and "Nothing to be done" in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )


def test_recorded_answers_give_the_same_candidates_to_the_byte_whenever_they_are_given(root: Path) -> None:
    replayed = ["proposer=replay"]
    run(root, config=replayed)
    table = root / TREE / "search/replay/candidates.parquet"
    first, asked = table.read_bytes(), of(root, CANDIDATES, "command")
    assert of(root, CANDIDATES, "replay").drop("search").equals(asked.drop("search"))
    assert set(of(root, CALLS, "replay")["made_by"]) == {"scripted", None}
    table.unlink()
    run(root, "--forcerun", "search", config=replayed)
    assert table.read_bytes() == first


def made_again(root: Path, place: Path) -> dict[str, tuple[CheckOutcome, str]]:
    """What `verify` says of each table of the search that asked, from the answers beside it."""
    files = [p.relative_to(root).as_posix() for p in (root / TREE / "search/command").glob("*.parquet")]
    jobs = jobs_of(root, [file for file in files if not file.endswith("trials.parquet")], (), 0)
    (job,) = (job for job in jobs if job.rule == "search")
    plan = Planned(
        target="all",
        rule=job.rule,
        command=job.command,
        outputs=job.outputs,
        log=(f"{TREE}/search.log",),
        parameters=(),
        alone=False,
    )
    found = replay.made_again(root, place, [plan], 1)
    return {Path(one.subject).stem: (one.outcome, one.message) for one in found}


def test_what_was_asked_is_made_again_from_its_answers_and_a_forged_price_is_found(
    root: Path, tmp_path: Path
) -> None:
    found = made_again(root, tmp_path / "again")
    assert {found[table][0] for table in ("sketches", "candidates", "search_ends")} == {CheckOutcome.EXACT}, (
        found
    )
    outcome, why = found["calls"]  # this program answers no question about a sketch that is wrong
    assert outcome is CheckOutcome.COULD_NOT and "2 of its questions" in why
    table = root / TREE / "search/command/candidates.parquet"
    before = table.read_bytes()
    rewritten(table, lambda f: f.with_columns(pl.col("predicted_us") * 0.9))
    try:
        outcome, why = made_again(root, tmp_path / "forged")["candidates"]
    finally:
        table.write_bytes(before)
    assert outcome is CheckOutcome.WRONG and "predicted_us" in why


def test_an_answer_that_is_not_there_is_missed(root: Path, tmp_path: Path) -> None:
    one = min((root / TREE / "search/command/answers").glob("*.json"))
    text = one.read_text()
    one.unlink()
    try:
        outcome, _ = made_again(root, tmp_path / "lost")["sketches"]
    finally:
        one.write_text(text)
    assert outcome is CheckOutcome.WRONG


def test_what_fails_on_the_ranks_is_asked_about_and_nothing_before_it_runs_again(root: Path) -> None:
    (root / "refuse.txt").touch()
    (root / "started.txt").unlink()
    run(root, "--forcerun", "trial")
    assert (root / "started.txt").read_text().split("\n")[:2] == ["trial grad_ar", "search grad_ar"]
    [call] = of(root, CALLS, "command-repair1").iter_rows(named=True)
    assert (call["purpose"], call["search"], call["outcome"]) == ("mend", "command-repair1", "failed")
    assert set(of(root, SEARCH_ENDS, "command-repair1")["search"]) == {"command-repair1"}
