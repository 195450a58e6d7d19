"""The bench table on real ranks: what is timed, and how often."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.settings import read
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.problems import uniform_a2a
from overlayccl_core.stages import bench
from overlayccl_core.stages.seed import seed_rows
from overlayccl_core.tables import table
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.shortlist import SHORTLIST
from tests.backends.batches import deployment

QUICK = read()
QUICK = replace(QUICK, bench=replace(QUICK.bench, seconds=2.0, minimum_rounds=2, maximum_rounds=2))


def shortlist(path: Path) -> pl.DataFrame:
    """Forward and backward seeds of a small uniform_a2a on 2 ranks, every Program once."""
    case = uniform_a2a.case({"chunk": 4, "width": 8}, ranks=2, ranks_per_node=2)
    found = {}
    for problem in catalog.directions(case):
        for row in seed_rows(problem, None, None):
            if row["equivalence"] == "pass":
                listed = {"candidate": row["strategy"], "why": ["seed"], "origin": "seed", "family": None}
                found.setdefault(
                    (row["direction"], row["program"]),
                    {c.name: (row | listed)[c.name] for c in SHORTLIST.columns},
                )
    return table.write(SHORTLIST, list(found.values()), path / "shortlist.parquet")


@pytest.mark.ranks
def test_both_directions_are_timed_in_one_launch(tmp_path: Path) -> None:
    said: list[str] = []
    listed = shortlist(tmp_path)
    found = bench.run(deployment(2), QUICK, listed, tmp_path, progress=said.append)
    frame = table.write(BENCH, found["bench"], tmp_path / "bench.parquet")
    key = ("case", "direction", "candidate", "program")
    assert set(frame.select(key).iter_rows()) == set(listed.select(key).iter_rows())
    assert set(frame["direction"]) == {"forward", "backward"}
    assert len(frame.select("launch", "foreign_cpu_share").unique()) == 1
    assert frame["samples_us"].list.len().min() >= 2


def test_every_candidate_is_a_job_of_its_own_name(tmp_path: Path) -> None:
    listed = shortlist(tmp_path)
    jobs = bench.jobs_of(listed.iter_rows(named=True), emit)
    assert len({job.key for job in jobs.values()}) == listed.height
    assert jobs[tuple(listed.select(bench.KEY).row(0))].program.digest == listed["program"][0]
