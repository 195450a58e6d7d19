"""Modules for torch_xla, as tests emit them."""

from functools import partial

from overlayccl_core.emit import torch_dialect
from overlayccl_core.program.program import Program
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.seed import seeds_of

CALLS = "overlayccl_core.backends.torchxla.calls"
emit = partial(torch_dialect.emit, calls=CALLS, uniform=True)


def seeds(problem: Problem) -> dict[str, Program]:
    """Every seed of a Problem that applies, by name."""
    found = {}
    for seed in seeds_of(problem):
        try:
            found[seed.name] = replay(seed.recipe, problem)
        except NotApplicable:
            continue
    return found
