"""A Program moved to a Problem whose ports mean the same."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.rename import ports_in_order, renamed
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from tests.known_cases import case


def test_the_program_keeps_its_order_and_solves_the_other_problem() -> None:
    forward, backward = catalog.directions(case("uniform_a2a"))
    program = trace_source(catalog.library_source("uniform_a2a"), "permute_ring", forward)
    moved = renamed(program, backward, ports_in_order(forward, backward))
    assert [type(e) for e in moved.events] == [type(e) for e in program.events]
    reference = transpose(trace_source(catalog.library_source("uniform_a2a"), "native", forward), backward)
    assert equivalence.prove(moved, reference).outcome is Outcome.PASS


def test_problems_with_other_ports_are_refused() -> None:
    exchange, sums = catalog.build(case("uniform_a2a")), catalog.build(case("tp_mlp"))
    with pytest.raises(ValueError, match=r"a2a has 1 .*tp_mlp has 6"):
        ports_in_order(exchange, sums)
    other = catalog.build(case("uniform_a2a", {"chunk": 3, "width": 4}))
    with pytest.raises(ValueError, match="send of uniform_a2a is"):
        ports_in_order(exchange, other)
