"""What torch_xla compiles of an emitted module: the collectives of its Program, and on all ranks the same text.

The HLO is read by a parser that knows nothing of ours (schedules/hlo_collectives.py).
"""

from collections import Counter

import pytest

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import features
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.schedules.hlo_collectives import Collective, collectives
from tests.backends.torchxla.modules import NODES, PROBLEMS, all_known_ways, emit, small_case

DTYPES = {"float32": "f32", "bfloat16": "bf16", "float64": "f64", "int64": "s64"}
RANKS = 224
BORDERS = (0, 1, 31, 32, 63, 64, 111, 112, 191, 192, 223)  # first, last, and where nodes and halves meet


def graphs(program: Program, ranks: tuple[int, ...]) -> dict[tuple[str, ...], list[int]]:
    """HLO of each graph -> the ranks that have these."""
    from benchmarks.lowered import Module

    module = Module(emit(program))
    found: dict[tuple[str, ...], list[int]] = {}
    for rank in ranks:
        module.connect(rank, program.problem.case.members())
        found.setdefault(tuple(module.graphs(program.problem)), []).append(rank)
    return found


def of_program(program: Program) -> list[Counter[Collective]]:
    """The collectives of each graph of a Program that has some."""
    found: list[Counter[Collective]] = [Counter()]
    for step in lower(program):
        if step.action is Action.BOUNDARY:
            found.append(Counter())
        elif step.action is Action.START:
            found[-1][_collective(step.nodes, program.problem.case)] += 1
    return [graph for graph in found if graph]


def _collective(call: tuple[Node, ...], case: Case) -> Collective:
    x = call[0]
    if x.kind is Kind.COLLECTIVE_PERMUTE:
        local = [(source, to) for to, source in enumerate(x.sources) if source >= 0]
    else:
        local = list(x.groups.members)
    return Collective(
        kind=x.kind.value.replace("_", "-"),
        dtype=DTYPES[x.dtype.value],
        bytes=sum(map(payload_bytes, call)),
        operands=len(call),
        groups=tuple(tuple(m[r] for r in group) for m in case.members() for group in local),
    )


def of_features(program: Program) -> Counter[tuple[str, str]]:
    """(kind, count or bytes) -> sum, as the cost model counts them."""
    found: Counter[tuple[str, str]] = Counter()
    for column, value in features(program).items():
        kind, *_, state, what = column.name.split(".") if column.name.count(".") == 3 else ("", "", "")
        if kind in COLLECTIVES and state in ("alone", "together"):
            found[kind.replace("_", "-"), what] += int(value)
    return found


def of_text(texts: tuple[str, ...]) -> list[Counter[Collective]]:
    found = [Counter(collectives(text)) for text in texts]
    return [graph for graph in found if graph]


@pytest.mark.parametrize("ranks", sorted(NODES))
@pytest.mark.parametrize("problem", PROBLEMS)
def test_collectives_of_every_known_way_are_those_of_its_program_and_all_ranks_have_one_text(
    problem: str, ranks: int
) -> None:
    programs = all_known_ways(small_case(problem, ranks))
    some = tuple(r for r in BORDERS if r < ranks) + ((ranks - 1,) if ranks < RANKS else ())
    for name, program in programs.items():
        found = graphs(program, tuple(sorted(set(some))))
        assert len(found) == 1, (
            f"{name}: rank {list(found.values())[1][0]} compiles another graph than rank 0"
        )
        [texts] = found
        assert of_text(texts) == of_program(program), name
        counted: Counter[tuple[str, str]] = Counter()
        for graph in of_text(texts):
            for one, times in graph.items():
                counted[one.kind, "count"] += times
                counted[one.kind, "bytes"] += times * one.bytes
        assert counted == of_features(program), name


def test_a_list_is_reduced_by_one_operation_that_joins_nothing() -> None:
    program = all_known_ways(small_case("grad_ar", 4))["forward coalesced"]
    [texts] = graphs(program, (0, 3))
    [text] = texts
    [one] = collectives(text)
    assert (one.kind, one.operands) == ("all-reduce", len(program.collectives))
    assert "concatenate(" not in text and "copy(" not in text


WORLD = (tuple(range(RANKS)),)
PAIRS = tuple((r, r + 112) for r in range(112))
NODES_OF_32 = tuple(tuple(range(32 * k, 32 * k + 32)) for k in range(7))
SAME_PLACE = tuple(tuple(range(k, RANKS, 32)) for k in range(32))
# One known way of each Problem at 224 ranks, 32 a node, counted by hand: graphs, (kind, bytes, groups) -> times.
# Sizes of the entries: 6 activations or sums of 35 float32 (140 B), 6 or 15 or 30 elements for each other rank.
BY_HAND = {
    # 3 microbatches x 2 layers, a boundary behind each microbatch
    ("tp_mlp", "forward developer"): (3, {("all-reduce", 140, WORLD): 6}),
    # both parts of a block added: the sums of 3 microbatches together, 2 x 3 x 140 B
    ("layer_block_ar", "forward merged_over_microbatches"): (1, {("all-reduce", 420, WORLD): 2}),
    # 3 parameters of 1344 x 5
    ("fsdp_prefetch", "forward gathered_once"): (1, {("all-gather", 1344 * 5 * 4, WORLD): 3}),
    # 105 elements, padded to 224
    ("grad_ar", "forward reduce_scatter_all_gather"): (
        1,
        {("reduce-scatter", 896, WORLD): 1, ("all-gather", 896, WORLD): 1},
    ),
    # the list of 105 elements: one operation
    ("grad_ar", "forward coalesced"): (1, {("all-reduce", 105 * 4, WORLD): 1}),
    # K and V of 3 heads, 1344 positions, 5 wide
    ("ring_kv", "forward joined"): (1, {("all-gather", 2 * 3 * 1344 * 5 * 4, WORLD): 1}),
    # 224 chunks of 3 x 5, first within nodes, then between the same places of all nodes
    ("uniform_a2a", "forward two_step_hierarchical"): (
        1,
        {("all-to-all", 224 * 60, NODES_OF_32): 1, ("all-to-all", 224 * 60, SAME_PLACE): 1},
    ),
    # 3 activations there, 3 gradients back, each gathered by both of a pair
    ("pp_send_recv", "forward pair_gather"): (1, {("all-gather", 280, PAIRS): 6}),
    # the largest logit, the sum of exponentials and the target's logit of 6 tokens
    ("dist_ce", "forward three_all_reduce"): (1, {("all-reduce", 24, WORLD): 3}),
}


@pytest.mark.parametrize(("problem", "way"), BY_HAND)
def test_one_known_way_of_each_problem_is_as_counted_by_hand_and_the_same_on_all_224_ranks(
    problem: str, way: str
) -> None:
    check_by_hand(all_known_ways(small_case(problem, RANKS))[way], *BY_HAND[problem, way])


def test_rows_for_each_rank_are_exchanged_in_one_call() -> None:
    """alltoallv: 6 rows of 5 for each of 224 ranks."""
    entry = {"pattern": "uniform", "rows": 6 * RANKS, "width": 5}
    case = catalog.case("alltoallv", entry, ranks=RANKS, ranks_per_node=32, uniform=True)
    check_by_hand(all_known_ways(case)["forward native"], 1, {("all-to-all", 224 * 6 * 5 * 4, WORLD): 1})


def check_by_hand(program: Program, count: int, wanted: dict[tuple[str, int, tuple], int]) -> None:
    found = graphs(program, tuple(range(RANKS)))
    assert len(found) == 1
    [texts] = found
    assert len(texts) == count
    got = Counter((c.kind, c.bytes, c.groups) for text in texts for c in collectives(text))
    assert got == wanted


def test_concurrent_problems_are_joined_into_groups_and_pairs_of_all_ranks() -> None:
    """Two problems of two ranks each, a stride apart: ranks 0 and 2, ranks 1 and 3."""
    fields = {"microbatches": 1, "shape": [1, 2, 3]}
    case = catalog.case(
        "pp_send_recv", fields, ranks=2, ranks_per_node=2, groups=2, strided=True, uniform=True
    )
    programs = all_known_ways(case)
    seen = {}
    for name in ("forward send_receive", "forward pair_gather"):
        [texts] = graphs(programs[name], (0, 1, 2, 3))
        seen[name] = {c.groups for text in texts for c in collectives(text)}
    assert seen == {
        "forward send_receive": {((0, 2), (1, 3)), ((2, 0), (3, 1))},
        "forward pair_gather": {((0, 2), (1, 3))},
    }


SCHEDULES = ("one by one", "together", "in pairs")


def scheduled(kind: Kind, schedule: str) -> Program:
    """Four collectives that read nothing of each other, under one of SCHEDULES."""
    probe = ProbeBuilder(4, 2, uniform=True)
    inputs = [probe.read(8) for _ in range(4)]
    waits = {"one by one": 1, "in pairs": 2, "together": 4}[schedule]
    for first in range(0, 4, waits):
        for node in [probe.issue(kind, x) for x in inputs[first : first + waits]]:
            probe.write(node)
    return probe.finish("p", ProbeRole.STRUCTURED).program


FLOOR = Floor(latency_us={}, bytes_per_us=1.0)


def counted_alike(programs: list[Program]) -> bool:
    """Whether Programs are the same to the cost model (and so have one price) and to the floor."""
    return all(
        features(p) == features(programs[0]) and FLOOR.us(p) == FLOOR.us(programs[0]) for p in programs
    )


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_programs_of_one_text_have_one_price(kind: Kind) -> None:
    programs = [scheduled(kind, schedule) for schedule in SCHEDULES]
    assert len({p.digest for p in programs}) == 3
    assert len({text for p in programs for text in graphs(p, (0,))}) == 1
    assert counted_alike(programs)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_known_ways_of_one_text_have_one_price(problem: str) -> None:
    of_text: dict[tuple[str, ...], list[Program]] = {}
    for program in all_known_ways(small_case(problem, 4)).values():
        [text] = graphs(program, (0,))
        of_text.setdefault(text, []).append(program)
    assert all(map(counted_alike, of_text.values()))


def test_a_slice_that_depends_on_the_rank_is_another_graph() -> None:
    """What the comparison is there to find: the text of torch.distributed's modules would not do."""
    from benchmarks.lowered import Module

    program = all_known_ways(small_case("uniform_a2a", 4))["forward gather_slice"]
    picked, sliced = (
        "x.view(-1, width).index_select(0, index)",
        "x.view(-1, width)[this_rank() :][: len(index)]",
    )
    source = emit(program)
    assert picked in source
    texts = []
    for rank in (0, 1):
        module = Module(source.replace(picked, sliced))
        module.connect(rank, program.problem.case.members())
        texts.append(module.graphs(program.problem))
    assert texts[0] != texts[1]
