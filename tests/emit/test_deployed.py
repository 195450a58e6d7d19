"""The text of deployed modules: what they import, hold and refuse to hold. No ranks."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.backends.torchxla.deployed import deployed as torchxla
from overlayccl_core.emit.deployed_case import CHOSEN, DeployedCase, GradientPath
from overlayccl_core.emit.port_groups import port_groups
from overlayccl_core.emit.sections import printed_sections
from overlayccl_core.emit.torch_dialect import ModuleStore
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.emit.deployed_modules import HERE, case_of_ways, entry, library_way, tried, way, write
from tests.emit.test_torch_dialect import imported
from tests.known_cases import programs
from tests.small_problems import exchange as small_exchange
from tests.small_problems import strategy

WAVEFRONT = """
    io.write("total", 0, 0, all_reduce(io.read("partial", 0, 0)))
    two = concat([flatten(io.read("partial", 0, 1)), flatten(io.read("partial", 1, 0))])
    a, b = split(all_reduce(two), 2)
    io.write("total", 0, 1, reshape(a, p.shape))
    io.write("total", 1, 0, reshape(b, p.shape))
    io.write("total", 1, 1, all_reduce(io.read("partial", 1, 1)))
""".replace("\n    ", "\n")


def tp(site: str = "exit", ranks: int = 4, microbatches: int = 2, layers: int = 2) -> Case:
    fields = {"microbatches": microbatches, "layers": layers, "shape": [1, 3, 6], "site": site}
    return catalog.case("tp_mlp", fields, ranks=ranks, ranks_per_node=ranks)


def grads(ranks: int = 4, overlap: bool = False) -> Case:
    return catalog.case(
        "grad_ar", {"sizes": [5, 16, 1, 7], "overlap": overlap}, ranks=ranks, ranks_per_node=ranks
    )


def exchange(ranks: int = 4) -> Case:
    return catalog.case("uniform_a2a", {"chunk": 3, "width": 4}, ranks=ranks, ranks_per_node=ranks)


def several() -> Case:
    counts = [[1, 4, 0, 2], [3, 0, 5, 1], [0, 0, 0, 0], [1, 1, 3, 0]]
    return catalog.case("alltoallv", {"counts": counts, "width": 3}, ranks=4, ranks_per_node=4)


def travelled(one: DeployedCase) -> DeployedCase:
    """The same Case with its Programs read from JSON."""
    return replace(one, ways={
        name: {d: replace(p, program=loads(dumps(p.program))) for d, p in of.items()}
        for name, of in one.ways.items()
    })  # fmt: skip


def test_a_module_needs_torch_alone_and_is_imported_where_nothing_of_ours_is(tmp_path: Path) -> None:
    path = write(tmp_path, "tp_mlp", [entry(tp(), "all_to_all_sum"), entry(tp("entry"), "developer")])
    assert imported(path.read_text()) - set(sys.stdlib_module_names) == {"torch"}
    code = "import sys; sys.modules['overlayccl_core'] = None; import tp_mlp; print(*tp_mlp.cases())"
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # else torch loads what of ours is installed
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=alone, capture_output=True, text=True
    )
    assert done.stdout.split() == [tp().id, tp("entry").id], done.stderr


def test_what_a_call_must_bring_travels_with_the_program_and_is_printed() -> None:
    one = entry(several(), "packed_gather_take", backward="permute_ring")
    source = deployed("alltoallv", [travelled(one)], HERE)
    assert "arguments={'counts': ((1, 4, 0, 2), (3, 0, 5, 1), (0, 0, 0, 0), (1, 1, 3, 0))}," in source
    assert "arguments={}," in deployed("grad_ar", [entry(grads(), "flat")], HERE)


def test_exchanges_by_counts_are_where_the_plain_calls_are_one_exchange_and_the_library_knows_splits() -> (
    None
):
    uniform = catalog.case("uniform_a2a", {"chunk": 3, "width": 4}, ranks=4, ranks_per_node=4, uniform=True)
    assert "\ndef by_counts(" in deployed("uniform_a2a", [entry(exchange(), "permute_ring")], HERE)
    assert "by_counts" not in torchxla("uniform_a2a", [entry(uniform, "permute_ring")], HERE)
    for case, name in ((grads(), "flat"), (tp(), "all_to_all_sum"), (several(), "packed_gather_take")):
        assert "by_counts" not in deployed(case.problem, [entry(case, name)], HERE)


def test_a_module_is_a_function_of_its_entries_and_readable() -> None:
    entries = [entry(grads(), "flat"), entry(grads(overlap=True), "reduce_back_to_back")]
    source = deployed("grad_ar", entries, HERE)
    assert source == deployed("grad_ar", entries, HERE)
    assert f"{grads().id}: flat" in source.split('"""')[1]
    assert max(map(len, source.splitlines())) <= 120
    other = deployed("grad_ar", [entry(grads(), "ddp_1_then_25_mib")], HERE)
    assert "def plain_0" in source and "def plain_0" not in other  # the plain calls are the chosen ones there


def test_programs_that_travelled_as_data_make_the_same_module() -> None:
    for case, name in (
        (tp(), "reduce_scatter_all_gather"),
        (grads(overlap=True), "flat"),
        (exchange(), "native"),
    ):
        one = entry(case, name)
        sources = [deployed(case.problem, [e], HERE) for e in (one, travelled(one))]
        assert sources[0] == sources[1]


def test_groups_are_layers_of_all_microbatches_whatever_the_programs_order() -> None:
    for site in ("exit", "entry"):
        case = tp(site, microbatches=3)
        for name in ("developer", "single_graph", "merged_over_microbatches"):
            groups = port_groups(library_way(case, name))
            assert [g.inputs for g in groups] == [
                tuple(("partial", m, layer) for m in range(3)) for layer in range(2)
            ]
            assert groups[1].outputs == tuple(("total", m, 1) for m in range(3))
    for overlap in (False, True):
        (group,) = port_groups(library_way(grads(overlap=overlap), "one_by_one"))
        assert group.inputs == tuple(("gradient", i) for i in range(4))
    assert len(port_groups(library_way(exchange(), "native"))) == 1


def test_sections_of_a_program_are_cut_where_nothing_is_alive() -> None:
    case = tp(microbatches=3)
    group_of = {
        p: k
        for k, g in enumerate(port_groups(library_way(case, "developer")))
        for p in (*g.inputs, *g.outputs)
    }

    def sections(name: str) -> list[int | None]:
        printed, why = printed_sections(library_way(case, name), ModuleStore(case), group_of)
        assert not why
        return [section.group for section in printed]

    assert sections("developer") == [0, 1] * 3
    assert sections("single_graph") == sections("merged_over_microbatches") == [0, 1]


def test_a_program_that_joins_layers_does_not_fall_into_groups() -> None:
    groups = port_groups(library_way(tp(), "developer"))
    group_of = {p: k for k, g in enumerate(groups) for p in (*g.inputs, *g.outputs)}
    (section,), why = printed_sections(tried(tp(), WAVEFRONT), ModuleStore(tp()), group_of)
    assert section.group is None
    assert "partial[0, 1]" in why or "total[0, 1]" in why or "total[1, 0]" in why


@given(st.permutations([(m, layer) for m in range(2) for layer in range(2)]))
def test_single_sums_fall_into_groups_in_any_legal_order(order: list[tuple[int, int]]) -> None:
    assume(all(order.index((m, 0)) < order.index((m, 1)) for m in range(2)))
    lines = [f'io.write("total", {m}, {n}, all_reduce(io.read("partial", {m}, {n})))' for m, n in order]
    program = tried(tp(), "\n".join(lines))
    assert [len(g.inputs) for g in port_groups(program)] == [2, 2]
    assert deployed("tp_mlp", [entry(tp(), forward=program)], HERE).count("ungrouped='',") == 2


def test_how_gradients_pass_follows_from_the_problem() -> None:
    assert entry(tp(), "developer").gradient is GradientPath.BACKWARD
    assert entry(tp("entry"), "developer").gradient is GradientPath.IN_BACKWARD
    assert entry(grads(), "flat").gradient is GradientPath.NONE
    block = catalog.case("layer_block_ar", dict(tp("entry").parameters), ranks=4, ranks_per_node=4)
    assert entry(block, "developer").gradient is GradientPath.IN_BACKWARD  # one total of two parts
    assert entry(exchange(), "native").gradient is GradientPath.BACKWARD


def test_tolerances_follow_from_the_class_and_from_what_the_plain_calls_round() -> None:
    half = catalog.case("tp_mlp",
        {"microbatches": 1, "layers": 1, "shape": [1, 3, 6], "site": "entry"},
        ranks=4, ranks_per_node=4, dtype="bfloat16",
    )  # fmt: skip
    wanted = {
        f"'forward': {LOSSY_TOLERANCE}": [
            entry(half, "developer"),
            entry(tp("entry"), "bf16_on_the_wire", numerics="lossy"),
        ],
        f"'forward': {REORDERED_TOLERANCE}": [entry(tp("entry"), "developer")],
    }
    for text, entries in wanted.items():
        for one in entries:
            assert f"tolerance={{{text}}}" in deployed("tp_mlp", [one], HERE)


def test_programs_that_do_not_belong_together_are_refused() -> None:
    one = entry(tp(), "developer")
    with pytest.raises(ValueError, match="needs `backward`"):
        case_of_ways(one.ways[CHOSEN], way("developer", library_way(tp(), "developer")))
    with pytest.raises(ValueError, match=r"got .*tp_mlp/n4.*-entry-"):
        case_of_ways(one.ways[CHOSEN], {**one.ways[CHOSEN], **entry(tp("entry"), "developer").ways[CHOSEN]})
    with pytest.raises(ValueError, match="each once"):
        deployed("tp_mlp", [one, one], HERE)
    with pytest.raises(ValueError, match="of another Problem"):
        deployed("grad_ar", [one], HERE)


def test_a_way_of_another_case_or_problem_or_without_a_backward_is_refused() -> None:
    """Three ways, and the third is planted: it has the name of the Case, and solves something else."""
    one, third = entry(tp(), "all_to_all_sum"), library_way(tp(), "merged_over_microbatches")
    ways = dict(one.ways)
    with pytest.raises(ValueError, match=r"third: got .*tp_mlp/n2"):
        replace(one, ways=ways | {"third": entry(tp(ranks=2), "developer").ways[CHOSEN]})
    with pytest.raises(ValueError, match=r"third: each way .*`backward`"):
        replace(one, ways=ways | {"third": way("merged_over_microbatches", third)})
    swapped = dict(zip(Direction, reversed(one.ways[CHOSEN].values()), strict=True))
    with pytest.raises(ValueError, match=r"forward third: got .* backward"):
        replace(one, ways=ways | {"third": swapped})
    rows = catalog.case("alltoallv", {"counts": [[1, 2], [3, 4]], "width": 3}, ranks=2, ranks_per_node=2)
    mine = entry(rows, "gather_slice")
    other = {
        d: replace(p, program=Program(replace(p.program.problem, arguments={}), p.program.events))
        for d, p in mine.ways[CHOSEN].items()
    }
    with pytest.raises(ValueError, match="not that of the plain calls"):
        replace(mine, ways=dict(mine.ways) | {"third": other})
    with pytest.raises(ValueError, match="letters, digits"):
        replace(one, ways=ways | {"found-1": one.ways[CHOSEN]})
    with pytest.raises(ValueError, match="no way plain"):
        replace(one, ways={CHOSEN: one.ways[CHOSEN]})


def test_a_module_lists_its_ways_and_prints_those_of_the_same_programs_once() -> None:
    third = entry(tp(), "merged_over_microbatches").ways[CHOSEN]
    one = entry(tp(), "all_to_all_sum", third=third, fourth=third)
    source = deployed("tp_mlp", [one], HERE)
    head = source.split('"""')[1]
    assert (
        f"{tp().id}: all_to_all_sum, backward all_to_all_sum\n    third: merged_over_microbatches, backward"
        in head
    )
    assert (
        "def third_0(" in source and "def fourth_0(" not in source and source.count("sections=third_0,") == 2
    )
    assert max(map(len, source.splitlines())) <= 120
    renamed = replace(one, ways={"other" if name == "third" else name: of for name, of in one.ways.items()})
    digests = [
        text.split("DIGEST = ")[1].split("\n")[0] for text in (source, deployed("tp_mlp", [renamed], HERE))
    ]
    assert digests[0] != digests[1]  # ranks with these files run other calls under one name


@pytest.mark.parametrize(
    ("outputs", "body"),
    [
        ({"y": (2,)}, 'io.write("y", slice_axis(all_reduce(io.read("x")), 0, 0, 2))'),
        ({"y": (4,), "z": (4,)}, 'x = all_reduce(io.read("x"))\nio.write("y", x)\nio.write("z", x)'),
    ],
)
def test_a_case_that_runs_in_the_backward_pass_gives_each_input_one_output(
    outputs: dict[str, tuple[int, ...]], body: str
) -> None:
    """Its forward is an identity: an input with no output of its shape, or two of them, means a wrong Problem."""
    of = small_exchange(2, {"x": (4,)}, outputs)
    summed = Problem(
        case=of.case,
        inputs={port: replace(spec, placement=Placement.PARTIAL) for port, spec in of.inputs.items()},
        outputs=of.outputs,
        segments=of.segments,
        parameters=of.parameters,
    )
    program = trace_source(strategy(body, "all_reduce, slice_axis"), "tried", summed)
    with pytest.raises(ValueError, match="has no backward"):
        case_of_ways(way("tried", program), way("tried", program))


def test_every_known_way_of_every_problem_makes_a_module_that_compiles() -> None:
    for case in (tp(), tp("entry"), grads(), grads(overlap=True), exchange()):
        for name in programs(catalog.build(case)):
            compile(deployed(case.problem, [entry(case, name)], HERE), name, "exec")
