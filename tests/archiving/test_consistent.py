"""Of what measured tables tell twice, one half cannot be changed alone."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.archiving.consistent import consistent
from overlayccl_core.archiving.findings import Check, CheckOutcome
from overlayccl_core.archiving.proofs import proofs
from overlayccl_core.evidence.redeployment import KEPT_THETA
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import write
from tests.archiving.forging import rewritten
from tests.fake_timings import FINGERPRINT
from tests.stages.training import SPEEDS, train_tables

OF_PROBLEM, TRAINED = "problems/tp_mlp", "train/tiny"
Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture
def tree(flow: SimpleNamespace, tmp_path: Path) -> Path:
    for folder in (OF_PROBLEM, TRAINED):
        (tmp_path / folder).mkdir(parents=True)
    write(PROBES, flow.probes, tmp_path / "probes.parquet")
    for table, rows in ((CASES, flow.listed), (SHORTLIST, flow.shortlisted), (FINALISTS, flow.ready)):
        write(table, rows, tmp_path / OF_PROBLEM / f"{table.name}.parquet")
    write(BENCH, flow.bench, tmp_path / OF_PROBLEM / "bench.parquet")
    speeds = {arm: us for arm, us in SPEEDS.items() if arm != ArmName.DEPLOYED}
    train_tables(flow.ready, tmp_path / TRAINED, speeds=speeds)
    rewritten(tmp_path / TRAINED / "steps.parquet", as_launches_tell)
    shutil.copy(tmp_path / TRAINED / "steps.parquet", tmp_path / "confirmed_steps.parquet")
    rewritten(tmp_path / "confirmed_steps.parquet", lambda f: f)  # by its own name
    return tmp_path


def as_launches_tell(frame: pl.DataFrame) -> pl.DataFrame:
    """A loss of every step."""
    steps = pl.col("steps_us").list.len() + pl.col("cold_us").list.len()
    return frame.with_columns(losses=pl.lit([5.0, 5.0]).repeat_by(steps))


def wrong(tree: Path) -> dict[str, str]:
    found = list(consistent(tree, FINGERPRINT))
    assert found and {one.check for one in found} == {Check.CONSISTENT}
    return {one.subject: one.message for one in found if one.outcome is CheckOutcome.WRONG}


def first(column: str, value: pl.Expr) -> Change:
    """Of the first row alone."""
    return lambda f: f.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(value).otherwise(pl.col(column)).alias(column)
    )


def test_what_nobody_changed_agrees(tree: Path) -> None:
    assert not wrong(tree)
    rewritten(tree / "confirmed_steps.parquet", lambda f: f.with_columns(pl.col("losses").list.head(0)))
    assert not wrong(tree)  # of a model whose losses no rank computes


FORGED: list[tuple[str, Change, str, str]] = [
    ("probes", first("rounds", pl.lit(30)), "", "30 rounds, 12 samples of 12 ranks"),
    ("probes", first("samples_us", pl.col("samples_us").list.head(2)), "", "12 rounds, 2 samples"),
    (
        f"{OF_PROBLEM}/bench",
        first("slowest_rank", pl.col("slowest_rank").list.head(2)),
        "",
        "12 samples of 2 ranks",
    ),
    (
        f"{TRAINED}/steps",
        first("steps_us", pl.col("steps_us").list.sort().list.head(3)),
        "",
        "3 timed steps,",
    ),
    ("confirmed_steps", first("losses", pl.col("losses").list.head(2)), "", "2 losses"),
    ("confirmed_steps", first("losses", pl.col("losses").list.head(0)), "", "0 losses"),
    (
        "confirmed_steps",
        lambda f: f.with_columns(pl.col("peak_memory_bytes") + 1),
        "arms",
        "peak_memory_bytes is 1048576 and 1048577",
    ),
    (f"{TRAINED}/steps", first("collectives", pl.lit(1)), "arms", "collectives is 1 and 16"),
    (f"{TRAINED}/steps", first("matmul_digest", pl.lit("0")), "arms", "matmul_digest is 0 and"),
    ("probes", first("fingerprint", pl.lit("host b #1")), "machine", "probes.parquet is of host b #1"),
]


@pytest.mark.parametrize(("table", "change", "subject", "why"), FORGED)
def test_half_of_what_is_told_twice_cannot_be_changed(
    tree: Path, table: str, change: Change, subject: str, why: str
) -> None:
    rewritten(tree / f"{table}.parquet", change)
    found = wrong(tree)
    subject = subject or f"{table}.parquet"
    assert set(found) == {subject} and why in found[subject], found


def test_the_cost_model_of_another_tree_is_of_another_machine(tree: Path) -> None:
    (tree / KEPT_THETA).parent.mkdir()
    of_another = pl.DataFrame({"fingerprint": ["host b #1"]})
    of_another.write_parquet(tree / KEPT_THETA)
    assert not wrong(tree)
    of_another.write_parquet(tree / "redeploy/regret.parquet")
    assert "redeploy/regret.parquet is of host b #1" in wrong(tree)["machine"]


def test_every_program_that_ran_is_proven_not_those_of_shortlists_alone(tree: Path) -> None:
    found = list(proofs(tree))
    listed = pl.read_parquet(tree / OF_PROBLEM / "shortlist.parquet")
    assert len(found) == listed.height and {one.outcome for one in found} == {CheckOutcome.EXACT}
    other = pl.read_parquet(tree / "probes.parquet").row(0, named=True)  # a Program of another Problem
    for name in ("bench", "finalists"):
        rewritten(
            tree / OF_PROBLEM / f"{name}.parquet",
            lambda f: first("program", pl.lit(other["program"]))(
                first("program_json", pl.lit(other["program_json"]))(f)
            ),
        )
    odd = [one for one in proofs(tree) if one.outcome is CheckOutcome.WRONG]
    assert {one.subject.rpartition(" in ")[2] for one in odd} == {"bench"}, odd  # one Program is proven once
