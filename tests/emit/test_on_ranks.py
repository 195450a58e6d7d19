"""Emitted modules on real ranks do what their Programs mean, bit for bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import read_library
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from tests.on_ranks import differences
from tests.small_problems import exchange, strategy

pytestmark = pytest.mark.ranks

ENTRIES: list[tuple[str, Mapping[str, Any]]] = [
    ("tp_mlp", {"microbatches": 2, "layers": 2, "shape": [1, 3, 6], "site": "exit"}),
    ("tp_mlp", {"microbatches": 2, "layers": 2, "shape": [1, 2, 5], "site": "entry"}),
    ("uniform_a2a", {"chunk": 3, "width": 4}),
    ("alltoallv", {"pattern": "random", "rows": 12, "width": 4}),
    ("alltoallv", {"pattern": "zeros", "rows": 8, "width": 3}),
    ("pp_send_recv", {"microbatches": 3, "shape": [1, 3, 6]}),
    ("grad_ar", {"sizes": [5, 16, 1, 7]}),
    ("grad_ar", {"sizes": [5, 16, 1, 7], "overlap": True}),
    ("layer_block_ar", {"microbatches": 2, "layers": 2, "shape": [1, 3, 6], "site": "exit"}),
    ("layer_block_ar", {"microbatches": 2, "layers": 2, "shape": [1, 2, 5], "site": "entry"}),
    ("all_to_next", {"elements": 7}),
    ("all_to_next", {"elements": 7, "round": True}),
    ("ring_kv", {"heads": 2, "sequence": 8, "head_dim": 3}),
    ("fsdp_prefetch", {"microbatches": 2, "layers": 2, "shape": [8, 3]}),
    ("fsdp_prefetch", {"microbatches": 2, "layers": 2, "shape": [3, 8], "shards": "columns"}),
    ("fsdp_prefetch", {"microbatches": 2, "layers": 3, "shape": [4, 3], "site": "regather"}),
]


def known_ways_of(case: Case, *, derived: bool) -> dict[str, Program]:
    """Every known way of a Case's library that applies, and its backward, simplified and as transposed.

    derived: also those that are made of other ways.
    """
    source = catalog.library_source(case.problem)
    backward = catalog.backward(case)
    programs = {}
    library = read_library(source)
    for name, _ in library.strategies:
        if name in library.derived and not derived:
            continue
        try:
            program = trace_source(source, name, catalog.build(case))
        except NotApplicable:
            continue
        programs[f"{case.id} {name}"] = program
        if backward is not None:
            back = transpose(program, backward)
            programs[f"{case.id} {name} transposed"] = back
            programs[f"{case.id} {name} backward"] = simplify(back)
    return programs


def all_known_ways(*, derived: bool = False, **size: Any) -> dict[str, Program]:
    cases = [catalog.case(name, entry, **size) for name, entry in ENTRIES]
    return {key: program for case in cases for key, program in known_ways_of(case, derived=derived).items()}


def test_every_known_way_forward_and_backward_and_random_programs_on_four_ranks(tmp_path: Path) -> None:
    programs = all_known_ways(ranks=4, ranks_per_node=4, derived=True)
    two_tiers = all_known_ways(ranks=4, ranks_per_node=2)
    programs |= {
        name: program for name, program in two_tiers.items() if "hierarchical" in name or "scattered" in name
    }
    deployment = Deployment(
        name="here", backend="torchdist", library="gloo", ranks=4, ranks_per_node=4,
        tiers=(Tier(name="node", ranks=4),), memory_budget_bytes=2**30,
    )  # fmt: skip
    mixed = mixed_probes(deployment, seed=11, count=25, role=ProbeRole.MIXED)
    programs |= {probe.name: probe.program for probe in mixed}
    assert len(programs) > 60
    differing = differences(programs, tmp_path)
    assert {name: what for name, what in differing.items() if what} == {}


@pytest.mark.parametrize("strided", [False, True])
def test_two_groups_of_two_at_once_each_compute_their_own(tmp_path: Path, strided: bool) -> None:
    programs = all_known_ways(ranks=2, ranks_per_node=2, groups=2, strided=strided)
    members = next(iter(programs.values())).problem.case.members()
    assert members == (((0, 2), (1, 3)) if strided else ((0, 1), (2, 3)))
    differing = differences(programs, tmp_path, members=members)
    assert {name: what for name, what in differing.items() if what} == {}


BODIES = {
    "rows of each rank's own, some zero": """
        x = io.read("x")
        table = [[3, -1, 0, 11, 5, 5], [2, 2, -1, -1, 7, 0], [1, 3, 5, 7, 9, 11], [-1, -1, -1, -1, -1, 4]]
        io.write("y", all_reduce(index_select(x, table)))
    """,
    "many single rows, of each rank's own, some zero": """
        table = [[(7 * i * i + r) % 13 - 1 for i in range(24)] for r in range(4)]
        io.write("y", slice_axis(all_reduce(index_select(io.read("x"), table)), 0, 10, 6))
    """,
    "many single rows, the same on all ranks, some zero": """
        table = [(5 * i * i) % 13 - 1 for i in range(24)]
        io.write("y", slice_axis(all_reduce(index_select(io.read("x"), table)), 0, 10, 6))
    """,
    "select, pad, slice by rank": """
        x = io.read("x")
        mine = slice_axis(x, 0, [0, 3, 6, 6], 6)
        io.write("y", all_reduce(select(pad(slice_axis(mine, 0, 1, 3), 0, [0, 1, 2, 3], 6), [1, 0, 1, 1])))
    """,
    "permute with a gap and a rank that keeps its own": """
        x = io.read("x")
        io.write("y", slice_axis(collective_permute(x, [(0, 2), (1, 1), (2, 3)]), 0, 2, 6))
    """,
    "permutes in flight together": """
        x = io.read("x")
        a = collective_permute(slice_axis(x, 0, 0, 6), [(0, 1), (1, 2), (2, 3), (3, 0)])
        b = collective_permute(slice_axis(x, 0, 6, 6), [(0, 1), (1, 2), (2, 3), (3, 0)])
        io.write("y", add(a, scale(b, 3)))
    """,
    "maximum": """
        io.write("y", all_reduce(slice_axis(io.read("x"), 0, 0, 6), "max"))
    """,
    "groups whose members are out of order": """
        x = slice_axis(io.read("x"), 0, 0, 6)
        groups = [[2, 0], [1, 3]]
        parts = reduce_scatter(all_to_all(all_gather(x, 0, groups), 0, groups), 0, groups)
        io.write("y", sub(parts, collective_permute(x, [(0, 3), (3, 0), (1, 2), (2, 1)])))
    """,
    "a value that is still being gathered is not overwritten": """
        x = io.read("x")
        y = add(slice_axis(x, 0, 0, 6), slice_axis(x, 0, 6, 6))
        gathered = all_gather(y)
        total = all_reduce(y)
        io.write("y", add(total, slice_axis(gathered, 0, 6, 6)))
    """,
    "written twice over, scaled, cast": """
        x = slice_axis(io.read("x"), 0, 0, 6)
        total = all_reduce(cast(x, "bfloat16"))
        boundary()
        io.write("y", scale(cast(total, "float32"), 3, 4))
    """,
}
WORDS = (
    "add, all_gather, all_reduce, all_to_all, boundary, cast, collective_permute, index_select, pad, "
    "reduce_scatter, scale, select, slice_axis, sub"
)


def test_layouts_permutes_and_groups_of_every_sort(tmp_path: Path) -> None:
    programs = {}
    for name, body in BODIES.items():
        linear = "max" not in name
        problem = exchange(4, {"x": (12,)}, {"y": (6,)}, linear=linear)
        lines = "\n".join(line[8:] for line in body.strip("\n").split("\n"))
        programs[name] = trace_source(strategy(lines, WORDS), "tried", problem)
    differing = differences(programs, tmp_path)
    assert {name: what for name, what in differing.items() if what} == {}
