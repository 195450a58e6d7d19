"""The bench table on real ranks: which seeds are timed, and how often."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import uniform_a2a
from overlayccl_core.settings import read
from overlayccl_core.stages import bench
from overlayccl_core.stages.seed import seed_rows
from overlayccl_core.tables import table
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.seeds import SEEDS
from tests.backends.batches import deployment

QUICK = read()
QUICK = replace(QUICK, bench=replace(QUICK.bench, seconds=2.0, minimum_rounds=2, maximum_rounds=2))


def seeds(path: Path) -> pl.DataFrame:
    """Forward and backward seeds of a small uniform_a2a on 2 ranks, and one of them under a second name."""
    case = uniform_a2a.case({"chunk": 4, "width": 8}, ranks=2, ranks_per_node=2)
    rows = [row for problem in catalog.directions(case) for row in seed_rows(problem, None, None)]
    native = next(row for row in rows if (row["direction"], row["strategy"]) == ("forward", "native"))
    return table.write(SEEDS, [*rows, {**native, "strategy": "native_again"}], path / "seeds.parquet")


@pytest.mark.ranks
def test_proven_forward_seeds_are_timed_and_equal_programs_once(tmp_path: Path) -> None:
    said: list[str] = []
    found = bench.run(deployment(2), QUICK, seeds(tmp_path), tmp_path, progress=said.append)
    frame = table.write(BENCH, found["bench"], tmp_path / "bench.parquet")
    assert set(frame["direction"]) == {"forward"}
    assert {"developer", "gather_slice", "native", "native_again", "permute_ring"} <= set(frame["strategy"])
    samples = dict(zip(frame["strategy"], frame["samples_us"].to_list(), strict=True))
    assert samples["native"] == samples["native_again"] != samples["gather_slice"]
    by_launch = frame["foreign_cpu_share"].unique()
    assert len(by_launch) == 1


def test_what_is_not_proven_is_not_timed(tmp_path: Path) -> None:
    rows = seeds(tmp_path).to_dicts()
    for row in rows:
        if row["strategy"] == "gather_slice":
            row["equivalence"] = "unproven"
        if row["strategy"] == "developer":
            row["legality"] = "fail"
    names = {row["strategy"] for row in bench.to_be_timed(rows)}
    assert "native" in names and not names & {"gather_slice", "developer"}
    unproven = pl.DataFrame(rows).with_columns(equivalence=pl.lit("unproven"))
    with pytest.raises(ValueError, match="legal and proven"):
        bench.run(deployment(2), QUICK, unproven, tmp_path, progress=str)
