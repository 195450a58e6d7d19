"""Modules for torch_xla, as tests emit them."""

from functools import cache, partial

from overlayccl_core import catalog, loader
from overlayccl_core.emit import torch_dialect
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from tests.known_cases import programs

CALLS = "overlayccl_core.backends.torchxla.calls"
NODES = {2: 1, 4: 2, 8: 2, 32: 1, 224: 7}  # ranks: how many nodes they are spread over
PROBLEMS = loader.names("problems")
emit = partial(torch_dialect.emit, calls=CALLS)


def small_case(problem: str, ranks: int, *, uniform: bool = True) -> Case:
    """The small example of a Problem at so many ranks of NODES; of one graph for all ranks, as they are here."""
    entry = catalog.plug_in(problem).examples(ranks)["small"]
    return catalog.case(problem, entry, ranks=ranks, ranks_per_node=ranks // NODES[ranks], uniform=uniform)


@cache
def all_known_ways(case: Case, *, derived: bool = False) -> dict[str, Program]:
    """Those of both directions, by `direction name`. derived: also those that are made of other ways."""
    return {
        f"{problem.direction.value} {name}": program
        for problem in catalog.directions(case)
        for name, program in programs(problem, derived=derived).items()
    }
