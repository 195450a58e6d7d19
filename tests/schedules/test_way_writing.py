"""A schedule as a way: the known way of every Problem of its kind, with the same meaning."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.ways import ways_of
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.way_writing import FILES, function_name, way_source
from tests.schedules.files import RIGHT, onward

OFFERED = {  # a Problem that offers the ways of a file, with sizes that no number of chunks divides
    "sums.py": ("tp_mlp", {"microbatches": 2, "layers": 2, "shape": [1, 5, 3]}),
    "gathers.py": ("captured", {"calls": [{"kind": "all_gather", "elements": 7}]}),
    "scatters.py": ("captured", {"calls": [{"kind": "reduce_scatter_sum", "elements": 28}]}),
    "exchanges.py": ("uniform_a2a", {"chunk": 3, "width": 5}),
    "nexts.py": ("all_to_next", {"elements": 7}),
}


@pytest.mark.parametrize("name", [*RIGHT, "onward"])
def test_it_is_a_way_of_every_problem_of_its_kind(name: str) -> None:
    if name == "onward":
        (schedule,) = msccl.read(onward(4), "all_to_next")
    else:
        (schedule,) = msccl.read(RIGHT[name](4))
    source, file = way_source(schedule, "a file"), FILES[schedule.collective]
    problem, entry = OFFERED[file]

    def ways(asked: str) -> tuple[str, ...]:
        return (*ways_of(asked), source) if f"{asked}.py" == file else ways_of(asked)

    built = catalog.build(catalog.case(problem, entry, ranks=4, ranks_per_node=4))
    made = trace_source(catalog.library_source(problem), function_name(schedule), built, ways)
    verdict = equivalence.prove(made, catalog.reference_program(built))
    assert verdict.passed, verdict.message
    assert {x.kind.value for x in made.collectives} >= {"collective_permute"}
    elsewhere = catalog.build(catalog.case(problem, {**entry}, ranks=2, ranks_per_node=2))
    with pytest.raises(NotApplicable, match="of 4 ranks"):
        trace_source(catalog.library_source(problem), function_name(schedule), elsewhere, ways)
