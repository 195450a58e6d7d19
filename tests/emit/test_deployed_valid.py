"""The selftest of deployed modules whose ports are valid in part: NaN where they are not, and no look at what comes
out there."""

from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.case import Case
from tests.emit.deployed_modules import entry, tried, write
from tests.emit.test_deployed_on_ranks import RANKS, play

pytestmark = pytest.mark.ranks
COUNTS = [[1, 4, 0, 2], [3, 0, 5, 1], [0, 0, 0, 0], [1, 1, 3, 0]]
PAIRS = "[(0, 2), (1, 3)]"
LEAVES_ITS_OWN = f"""
io.write("b", 0, all_reduce(io.read("a", 0), "sum", {PAIRS}))
io.write("gb", 0, collective_permute(io.read("ga", 0), [(2, 0), (3, 1)]))
"""
KEEPS_WHAT_MEANS_NOTHING = """
both = [(0, 2), (1, 3), (2, 0), (3, 1)]
io.write("b", 0, collective_permute(io.read("a", 0), both))
io.write("gb", 0, collective_permute(io.read("ga", 0), both))
"""


def case_of(problem: str, **fields: Any) -> Case:
    return catalog.case(problem, fields, ranks=RANKS, ranks_per_node=RANKS)


def test_it_passes_what_is_right_where_it_is_valid_and_names_what_is_not(tmp_path: Path) -> None:
    rows = case_of("alltoallv", counts=COUNTS, width=3)
    stages = case_of("pp_send_recv", microbatches=3, shape=[1, 2, 5], schedule="1f1b")
    one = case_of("pp_send_recv", microbatches=1, shape=[1, 2, 5])
    write(tmp_path, "rows", [entry(rows, "packed_gather_take", backward="permute_ring")])
    write(tmp_path, "stages", [entry(stages, "both_ways_at_once"), entry(one, "masked_all_reduce")])
    write(tmp_path, "loose", [entry(one, forward=tried(one, KEEPS_WHAT_MEANS_NOTHING))])
    write(tmp_path, "wrong", [entry(one, forward=tried(one, LEAVES_ITS_OWN))])
    names = ("rows", "stages", "loose", "wrong")
    seen = play(tmp_path, {name: ("tested", f"{name}.py", {}) for name in names})
    for name, checked in (("rows", 2), ("stages", 2), ("loose", 1)):
        for of_rank in seen[name]:
            assert not of_rank["error"] and not of_rank["own"], of_rank
            assert [line["error"] for line in of_rank["lines"]] == [0.0] * checked
    for of_rank in seen["wrong"]:
        assert all(part in of_rank["error"] for part in ("b[0] ", "by nan on rank 2")), of_rank["error"]
