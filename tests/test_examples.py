"""The sketches of examples/ are right wherever they have a meaning, and say where they have none."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from tests.known_cases import case
from tests.probes.asked.talk import example, talk

SKETCHES = sorted((Path(__file__).parents[1] / "examples/sketches").glob("*/*.py"))


@pytest.mark.parametrize("sketch", SKETCHES, ids=[f"{s.parent.name}-{s.stem}" for s in SKETCHES])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_sketch_is_right_in_both_directions_or_not_applicable(sketch: Path, ranks: int) -> None:
    source, of = sketch.read_text(), case(sketch.parent.name, ranks=ranks)
    problem, backward = catalog.build(of), catalog.backward(of)
    try:
        forward = trace_source(source, functions_of(source)[-1], problem)
    except NotApplicable as reason:
        assert ranks == 3 and "no power of two" in str(reason)
        return
    assert ranks != 3 and prove(forward, catalog.reference_program(problem)).outcome is Outcome.PASS
    if backward is not None:
        assert (
            prove(transpose(forward, backward), catalog.reference_program(backward)).outcome is Outcome.PASS
        )


def test_the_example_orders_probes_that_can_be_timed(tmp_path: Path) -> None:
    talked = talk(tmp_path, *example(), probes=80)
    assert set(talked.outcomes()) == {"measured", "told"} and talked.outcomes().count("measured") > 25
    assert talked.chooser.ended == "it called finish"
