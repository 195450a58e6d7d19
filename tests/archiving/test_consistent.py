"""Of what a measured row tells twice, one half cannot be changed alone."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.archiving.consistent import consistent
from overlayccl_core.archiving.findings import Check, Outcome
from overlayccl_core.archiving.proofs import proofs
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from tests.archiving.forging import rewritten
from tests.fake_timings import FINGERPRINT
from tests.stages.flow import flow_of
from tests.stages.training import SPEEDS, train_tables

ENTRY = {"microbatches": 2, "layers": 2, "shape": [1, 16, 16], "site": "entry"}
OF_PROBLEM, TRAINED = "problems/tp_mlp", "train/tiny"
Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(tmp_path_factory.mktemp("flow"), "tp_mlp", [ENTRY])


@pytest.fixture
def tree(flow: SimpleNamespace, tmp_path: Path) -> Path:
    for folder in (OF_PROBLEM, TRAINED):
        (tmp_path / folder).mkdir(parents=True)
    write(PROBES, flow.probes, tmp_path / "probes.parquet")
    for table, rows in ((CASES, flow.listed), (SHORTLIST, flow.shortlisted), (FINALISTS, flow.ready)):
        write(table, rows, tmp_path / OF_PROBLEM / f"{table.name}.parquet")
    write(BENCH, flow.bench, tmp_path / OF_PROBLEM / "bench.parquet")
    speeds = {arm: us for arm, us in SPEEDS.items() if arm != ArmName.DEPLOYED}
    steps, stamps = train_tables(flow.ready, tmp_path, speeds=speeds)
    counted = ("matmuls", "matmul_digest", "collectives", "peak_activation_bytes")
    steps = steps.with_columns(pl.col(counted).fill_null(strategy="forward"))  # as launches tell them
    calls = {
        digest: len(loads(text).calls) for digest, text in flow.ready.select("program", "program_json").rows()
    }
    stamps = stamps.with_columns(
        pl.col("program").replace_strict(calls, return_dtype=pl.Int64).alias("calls")
    )
    write(STEPS, steps, tmp_path / TRAINED / "steps.parquet")
    write(STAMPS, stamps, tmp_path / TRAINED / "stamps.parquet")
    for left in ("steps", "stamps"):
        (tmp_path / f"{left}.parquet").unlink()
    return tmp_path


def wrong(tree: Path) -> dict[str, str]:
    found = list(consistent(tree, FINGERPRINT))
    assert found and {one.check for one in found} == {Check.CONSISTENT}
    return {one.subject: one.message for one in found if one.outcome is Outcome.WRONG}


def first(column: str, value: pl.Expr) -> Change:
    """Of the first row alone."""
    return lambda f: f.with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(value).otherwise(pl.col(column)).alias(column)
    )


def swapped(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("program_json").gather([1, 0, *range(2, frame.height)]))


def test_what_nobody_changed_agrees(tree: Path) -> None:
    assert not wrong(tree)


FORGED: list[tuple[str, Change, str]] = [
    ("probes", swapped, "program_json is"),
    (f"{OF_PROBLEM}/bench", swapped, "program_json is"),
    (f"{OF_PROBLEM}/finalists", swapped, "program_json is"),
    (f"{OF_PROBLEM}/bench", first("program_json", pl.lit("{}")), "developer"),
    ("probes", lambda f: f.with_columns(foreign_cpu_share=pl.lit(0.41)), "disturbed is False"),
    (
        "probes",
        lambda f: f.with_columns(foreign_cpu_share=pl.lit(None, pl.Float64), disturbed=pl.lit(True)),
        "None",
    ),
    (f"{TRAINED}/steps", lambda f: f.with_columns(foreign_cpu_share=pl.lit(0.11)), "0.1 is allowed"),
    (f"{OF_PROBLEM}/bench", first("foreign_cpu_share", pl.lit(0.02)), "of the same launch 0.0"),
    (f"{TRAINED}/steps", first("nodes", pl.lit("others")), "of the same launch"),
    ("probes", first("rounds", pl.lit(30)), "30 rounds, 12 samples of 12 ranks"),
    ("probes", first("samples_us", pl.col("samples_us").list.head(2)), "12 rounds, 2 samples"),
    ("probes", first("slowest_rank", pl.lit([4] * 12)), "ranks [4], of 4"),
    ("probes", lambda f: f.with_columns(pl.col("samples_us").list.eval(-pl.element())), "a time of -"),
    (f"{OF_PROBLEM}/bench", first("status", pl.lit("crashed")), "crashed, with 12 times"),
    (f"{TRAINED}/steps", first("status", pl.lit("hung")), "hung, with"),
    (f"{TRAINED}/steps", first("collectives", pl.lit(1)), "of the same arm 1"),
    (f"{TRAINED}/steps", first("matmul_digest", pl.lit("0")), "of the same arm 0"),
    (f"{TRAINED}/stamps", first("calls", pl.lit(1)), "1 calls of"),
    (f"{TRAINED}/stamps", first("library_version", pl.lit("torch 2.9.0+cpu")), "with torch 2.13.0"),
]


@pytest.mark.parametrize(("table", "change", "why"), FORGED)
def test_half_of_what_is_told_twice_cannot_be_changed(
    tree: Path, table: str, change: Change, why: str
) -> None:
    rewritten(tree / f"{table}.parquet", change)
    found = wrong(tree)
    assert set(found) == {f"{table}.parquet"} and why in found[f"{table}.parquet"], found


def test_a_library_may_tell_its_build_where_its_package_does_not(tree: Path) -> None:
    rewritten(
        tree / TRAINED / "stamps.parquet",
        lambda f: f.with_columns(library_version=pl.lit("torch 2.13.0+cu130")),
    )
    assert not wrong(tree)


def test_every_program_that_ran_is_proven_not_those_of_shortlists_alone(tree: Path) -> None:
    found = list(proofs(tree))
    listed = pl.read_parquet(tree / OF_PROBLEM / "shortlist.parquet")
    assert len(found) == listed.height and {one.outcome for one in found} == {Outcome.EXACT}
    other = pl.read_parquet(tree / "probes.parquet").row(0, named=True)  # a Program of another Problem
    for name in ("bench", "finalists"):
        rewritten(
            tree / OF_PROBLEM / f"{name}.parquet",
            lambda f: first("program", pl.lit(other["program"]))(
                first("program_json", pl.lit(other["program_json"]))(f)
            ),
        )
    odd = [one for one in proofs(tree) if one.outcome is Outcome.WRONG]
    assert {one.subject.rpartition(" in ")[2] for one in odd} == {"bench"}, odd  # one Program is proven once
