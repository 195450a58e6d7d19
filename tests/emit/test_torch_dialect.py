"""The text of emitted modules: what it imports, offers and looks like. No ranks."""

import ast
import re
import sys
import time
from itertools import combinations
from types import ModuleType

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import CALLS, emit
from overlayccl_core.emit import torch_dialect
from overlayccl_core.emit.torch_dialect import port_name
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.apply import apply
from tests.small_problems import exchange, strategy


def library_way(name: str, ranks: int = 4, chunk: int = 3) -> Program:
    case = catalog.case("uniform_a2a", {"chunk": chunk, "width": 4}, ranks=ranks, ranks_per_node=ranks)
    return trace_source(catalog.library_source("uniform_a2a"), name, catalog.build(case))


def module_of(source: str) -> ModuleType:
    module = ModuleType("emitted")
    exec(compile(source, "emitted", "exec"), module.__dict__)
    return module


def imported(source: str) -> set[str]:
    """Packages that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).split(".")[0])
    return names


def test_a_module_imports_torch_only_and_says_what_it_is() -> None:
    program = library_way("gather_reduce_scatter")
    source = emit(program)
    assert imported(source) - set(sys.stdlib_module_names) == {"torch"}
    said = vars(module_of(source))
    assert said["CASE"] == program.problem.case.id
    assert said["RANKS"] == 4
    assert said["DIGEST"] == {"forward": program.digest}
    assert max(map(len, source.splitlines())) <= 115


def test_forward_and_backward_share_a_module() -> None:
    program = library_way("gather_reduce_scatter")
    back = simplify(transpose(program, catalog.backward(program.problem.case)))
    module = module_of(torch_dialect.emit(program, back, calls=CALLS))
    assert set(module.DIGEST) == {"forward", "backward"}
    assert next(module.backward()).__class__ is next(module.forward()).__class__ is module.Read


def test_two_programs_of_one_direction_are_refused() -> None:
    with pytest.raises(ValueError, match="one backward"):
        torch_dialect.emit(library_way("gather_reduce_scatter"), library_way("native"), calls=CALLS)


def test_a_program_without_events_is_still_a_generator() -> None:
    problem = exchange(2, {"x": (2,)}, {})
    program = trace_source("def tried(io, p):\n    y = 1\n", "tried", problem)
    assert list(module_of(emit(program)).forward()) == []


def test_ports_never_hide_names_of_the_module() -> None:
    assert port_name(("partial", 0, 3)) == "partial_0_3"
    assert port_name(("world",)) == "world_" and port_name(("rows", 1)) == "rows_1_"
    assert port_name(("all_reduce",)) == "all_reduce_" and port_name(("class",)) == "class_"
    body = 'io.write("torch", all_reduce(io.read("dist")))'
    problem = exchange(2, {"dist": (2,)}, {"torch": (2,)})
    source = emit(trace_source(strategy(body), "tried", problem))
    assert "dist_ = yield Read('dist')" in source


def test_224_ranks_are_emitted_quickly() -> None:
    case = catalog.case(
        "tp_mlp",
        {"microbatches": 4, "layers": 8, "shape": [1, 64, 128], "site": "exit"},
        ranks=224,
        ranks_per_node=32,
    )
    tp = trace_source(catalog.library_source("tp_mlp"), "hierarchical", catalog.build(case))
    programs = [
        tp,
        *(library_way(name, 224, 2) for name in ("gather_reduce_scatter", "gather_slice")),
        library_way("permute_ring", 64, 2),  # of more ranks there is none
    ]
    started = time.process_time()
    sources = [emit(program) for program in programs]
    assert time.process_time() - started < 5.0
    for source in sources:
        compile(source, "emitted", "exec")
        assert len(source) < 2_000_000


def test_permutes_of_two_programs_never_share_a_tag() -> None:
    """Small tags are a user's own; the library has 31 bits for them."""
    program = library_way("permute_ring")
    back = simplify(transpose(program, catalog.backward(program.problem.case)))
    tags_of_each = [
        [int(tag) for tag in re.findall(r"collective_permute\(\w+, \w+, (\d+)\)", emit(one))]
        for one in (program, back, library_way("permute_ring", ranks=6))
    ]
    for tags, other in combinations(tags_of_each, 2):
        assert tags and not set(tags) & set(other)
    assert all(
        len(set(tags)) == len(tags) and min(tags) > 1000 and max(tags) < 2**31 for tags in tags_of_each
    )


def test_a_module_lets_the_model_work_before_it_waits_for_what_was_issued_early() -> None:
    entry = {"microbatches": 1, "layers": 2, "shape": [1, 4, 8], "site": "entry"}
    problem = catalog.build(catalog.case("tp_mlp", entry, ranks=4, ranks_per_node=4))
    program = trace_source(catalog.library_source("tp_mlp"), "developer", problem)
    assert "meanwhile" not in emit(program)
    early = emit(apply(program, ("early_issue", "all_reduce:world:1", "")))
    assert early.count("    meanwhile()\n    work_") == 2
    module = module_of(early)
    module.meanwhile()
