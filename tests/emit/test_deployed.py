"""The text of deployed modules: what they import, hold and refuse to hold. No ranks."""

import ast
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.bench_driver import load_module
from overlayccl_core.emit.deployed import (
    LOSSY_TOLERANCE,
    REORDERED_TOLERANCE,
    Gradient,
    Stamp,
    deployed_module,
)
from overlayccl_core.emit.port_groups import port_groups, printed_parts
from overlayccl_core.emit.torch_dialect import ModuleStore
from overlayccl_core.gates import numerics
from overlayccl_core.problems import grad_ar, tp_mlp, uniform_a2a
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.library import read_library
from tests.emit.deployed_modules import HERE, entry, seed, tried, write

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
    return tp_mlp.case(fields, ranks=ranks, ranks_per_node=ranks)


def grads(ranks: int = 4, overlap: bool = False) -> Case:
    return grad_ar.case({"sizes": [5, 16, 1, 7], "overlap": overlap}, ranks=ranks, ranks_per_node=ranks)


def exchange(ranks: int = 4) -> Case:
    return uniform_a2a.case({"chunk": 3, "width": 4}, ranks=ranks, ranks_per_node=ranks)


def imported(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
    return found


def test_a_module_needs_torch_alone_and_is_imported_where_nothing_of_ours_is(tmp_path: Path) -> None:
    path = write(tmp_path, "tp_mlp", [entry(tp(), "all_to_all_sum"), entry(tp("entry"), "developer")])
    assert imported(path.read_text()) - set(sys.stdlib_module_names) == {"torch"}
    code = "import sys; sys.modules['overlayccl_core'] = None; import tp_mlp; print(*tp_mlp.cases())"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.split() == [tp().id, tp("entry").id], found.stderr


def test_a_module_is_a_function_of_its_entries_and_readable() -> None:
    entries = [entry(grads(), "flat"), entry(grads(overlap=True), "reduce_back_to_back")]
    source = deployed_module("grad_ar", entries, HERE)
    assert source == deployed_module("grad_ar", entries, HERE)
    assert f"{grads().id}: flat" in source.split('"""')[1]
    assert max(map(len, source.splitlines())) <= 120
    other = deployed_module("grad_ar", [entry(grads(), "developer")], HERE)
    assert "def plain_0" in source and "def plain_0" not in other  # the plain calls are the chosen ones there


def test_programs_that_travelled_as_data_make_the_same_module() -> None:
    for case, name in (
        (tp(), "reduce_scatter_all_gather"),
        (grads(overlap=True), "flat"),
        (exchange(), "native"),
    ):
        one = entry(case, name)
        programs = ("forward", "plain_forward", "backward", "plain_backward")
        travelled = {k: p and loads(dumps(p)) for k, p in ((k, getattr(one, k)) for k in programs)}
        sources = [deployed_module(case.problem, [e], HERE) for e in (one, replace(one, **travelled))]
        assert sources[0] == sources[1]


def test_groups_are_layers_of_all_microbatches_whatever_the_programs_order() -> None:
    for site in ("exit", "entry"):
        case = tp(site, microbatches=3)
        for name in ("developer", "single_graph", "merged_over_microbatches"):
            groups = port_groups(seed(case, name))
            assert [g.inputs for g in groups] == [
                tuple(("partial", m, layer) for m in range(3)) for layer in range(2)
            ]
            assert groups[1].outputs == tuple(("total", m, 1) for m in range(3))
    for overlap in (False, True):
        (group,) = port_groups(seed(grads(overlap=overlap), "developer"))
        assert group.inputs == tuple(("gradient", i) for i in range(4))
    assert len(port_groups(seed(exchange(), "native"))) == 1


def test_parts_of_a_program_are_cut_where_nothing_is_alive() -> None:
    case = tp(microbatches=3)
    group_of = {
        p: k for k, g in enumerate(port_groups(seed(case, "developer"))) for p in (*g.inputs, *g.outputs)
    }

    def parts(name: str) -> list[int | None]:
        found, why = printed_parts(seed(case, name), ModuleStore(4), group_of)
        assert not why
        return [part.group for part in found]

    assert parts("developer") == [0, 1] * 3
    assert parts("single_graph") == parts("merged_over_microbatches") == [0, 1]


def test_a_program_that_joins_layers_does_not_fall_into_groups() -> None:
    groups = port_groups(seed(tp(), "developer"))
    group_of = {p: k for k, g in enumerate(groups) for p in (*g.inputs, *g.outputs)}
    (part,), why = printed_parts(tried(tp(), WAVEFRONT), ModuleStore(4), group_of)
    assert part.group is None
    assert "partial[0, 1]" in why or "total[0, 1]" in why or "total[1, 0]" in why


@given(st.permutations([(m, layer) for m in range(2) for layer in range(2)]))
def test_single_sums_fall_into_groups_in_any_legal_order(order: list[tuple[int, int]]) -> None:
    assume(all(order.index((m, 0)) < order.index((m, 1)) for m in range(2)))
    lines = [f'io.write("total", {m}, {n}, all_reduce(io.read("partial", {m}, {n})))' for m, n in order]
    program = tried(tp(), "\n".join(lines))
    assert [len(g.inputs) for g in port_groups(program)] == [2, 2]
    assert "ungrouped={'chosen': '', 'plain': ''}" in deployed_module(
        "tp_mlp", [entry(tp(), forward=program)], HERE
    )


def test_how_gradients_pass_follows_from_the_problem() -> None:
    assert entry(tp(), "developer").gradient is Gradient.BACKWARD
    assert entry(tp("entry"), "developer").gradient is Gradient.IN_BACKWARD
    assert entry(grads(), "flat").gradient is Gradient.NONE
    assert entry(exchange(), "native").gradient is Gradient.BACKWARD


def test_tolerances_are_those_of_the_numerics_gate() -> None:
    assert (REORDERED_TOLERANCE, LOSSY_TOLERANCE) == (numerics.REORDERED_BOUND, numerics.LOSSY_BOUND)
    half = tp_mlp.case(
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
            assert f"tolerance={{{text}}}" in deployed_module("tp_mlp", [one], HERE)


def test_what_a_group_gives_shares_no_memory_with_anything_of_the_scripts(tmp_path: Path) -> None:
    path = write(tmp_path, "tp_mlp", [entry(tp(), "developer")])
    apart, gradients = (getattr(load_module(path, "apart"), name) for name in ("_apart", "_gradients"))
    given, buffer = torch.arange(4.0), torch.arange(8.0)
    values = [buffer[4:], given.view(2, 2), buffer[:4], buffer[2:6], buffer[:4]]
    wanted = [x.clone() for x in values]
    found = apart(values, [given])
    for i, x in enumerate(found):
        x.add_(1)
        wanted[i] += 1
        assert all(torch.equal(y, want) for y, want in zip(found, wanted, strict=True))
    assert torch.equal(given, torch.arange(4.0)) and max(x._version for x in found) == 1
    merged = apart([buffer[:4], buffer[4:]], [given])
    assert [x.data_ptr() - buffer.data_ptr() for x in merged] == [0, 16]  # nothing is copied in vain
    back = gradients([given.view(4), buffer[:4], given[:2], given.view(4)], [given])
    assert back[0] is given and back[3] is given and back[1].data_ptr() == buffer.data_ptr()
    assert back[2].data_ptr() != given.data_ptr() and torch.equal(back[2], given[:2])


def test_programs_that_do_not_belong_together_are_refused() -> None:
    one = entry(tp(), "developer")
    with pytest.raises(ValueError, match=r"needs `backward` and `plain_backward`"):
        replace(one, backward=None)
    with pytest.raises(ValueError, match=r"got a Program of tp_mlp/n4-m2-l2-72B-entry-f32"):
        replace(one, plain_forward=seed(tp("entry"), "developer"))
    with pytest.raises(ValueError, match="each once"):
        deployed_module("tp_mlp", [one, one], HERE)
    with pytest.raises(ValueError, match="of another Problem"):
        deployed_module("grad_ar", [one], HERE)


def test_every_seed_of_every_problem_makes_a_module_that_compiles() -> None:
    for case in (tp(), tp("entry"), grads(), grads(overlap=True), exchange()):
        for name, _ in read_library(catalog.library_source(case.problem)).seeds:
            if "hierarchical" not in name:  # one tier
                compile(deployed_module(case.problem, [entry(case, name)], HERE), name, "exec")


def test_another_library_than_the_proven_one_is_refused_where_strict_and_told_once_elsewhere(
    tmp_path: Path,
) -> None:
    stamp = Stamp(library="gloo", versions={"torch": "1.0"})
    module = load_module(write(tmp_path, "old", [entry(grads(), "flat")], stamp), "old_module")
    here = {"library": "gloo", "torch": "2.0"}
    with pytest.raises(RuntimeError, match=r"measured with torch 1\.0, here is torch 2\.0.*strict=False"):
        module._check_versions(here, True)
    with pytest.warns(RuntimeWarning, match=r"measured with torch 1\.0"):
        module._check_versions(here, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module._check_versions(here, False)
        module._check_versions({"library": "gloo", "torch": "1.0"}, True)
