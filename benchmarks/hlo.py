"""What torch_xla compiles of every known way at 224 ranks, 32 a node, at training sizes: lowered on CPU, not run.

It needs the real torch_xla: `make xla`, then `.venv-xla/bin/python -m benchmarks hlo`. Seconds are of one rank and
one module: its tables, the trace and the HLO. Bytes are of one rank, at the larger side of each collective.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

from benchmarks.examples import PROBLEMS, RANKS, example
from overlayccl_core import catalog
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.schedules.hlo_collectives import Collective, collectives
from overlayccl_core.stages.known_ways import known_ways_of

CALLS = "overlayccl_core.backends.torchxla.calls"
COMPARED = (0, 1, 31, 32, 63, 64, 111, 112, 191, 192, 223)  # first, last, and where nodes and halves meet
MIB = 2**20
SHORT = {
    "all-reduce": "AR",
    "all-gather": "AG",
    "reduce-scatter": "RS",
    "all-to-all": "A2A",
    "collective-permute": "CP",
}


def report() -> Iterator[str]:
    """A line for each known way and direction."""
    os.environ |= {"PJRT_DEVICE": "CPU", "XLA_ALWAYS_ALLREDUCE": "1"}
    compared = ", ".join(map(str, COMPARED))
    yield f"HLO of every known way at {RANKS} ranks, `train` sizes; the same text on ranks {compared}: yes or no"
    yield f"{'way':<64}{'graphs':>7}{'collectives':>22}{'MiB':>10}{'groups of':>11}{'kB':>7}{'s':>7}  same"
    for problem, direction, name, program in ways():
        texts, seconds, same = lowered(program)
        found = [one for text in texts for one in collectives(text)]
        yield (
            f"{f'{problem} {direction} {name}':<64}{len(texts):>7}{_kinds(found):>22}"
            f"{sum(one.bytes for one in found) / MIB:>10.1f}{_sizes(found):>11}"
            f"{sum(map(len, texts)) / 1000:>7.0f}{seconds:>7.3f}  {'yes' if same else 'NO'}"
        )


def ways() -> Iterator[tuple[str, str, str, Program]]:
    """(Problem, direction, name, Program) of all that apply."""
    for name in PROBLEMS:
        for problem in catalog.directions(replace(example(name), uniform=True)):
            for way in known_ways_of(problem):
                try:
                    program = replay(way.recipe, problem)
                except NotApplicable:
                    continue
                short = way.name.replace("simplified_transpose_of_", "transposed ")
                yield name, problem.direction.value, short, program


def lowered(program: Program) -> tuple[list[str], float, bool]:
    """(HLO of each graph on rank 0, seconds that it took, whether all that are compared have the same)."""
    from benchmarks.lowered import Module

    members = program.problem.case.members()
    module = Module(emit(program, calls=CALLS))
    first: list[str] = []
    seconds, same = 0.0, True
    for rank in COMPARED:
        begin = perf_counter()
        module.connect(rank, members)
        texts = module.graphs(program.problem)
        if rank == 0:
            first, seconds = texts, perf_counter() - begin
        same = same and texts == first
    return first, seconds, same


def _kinds(found: list[Collective]) -> str:
    counted = Counter(SHORT[one.kind] for one in found)
    return " ".join(f"{times} {kind}" for kind, times in counted.items()) or "none"


def _sizes(found: list[Collective]) -> str:
    sizes = {len(one.groups[0]) for one in found if one.kind != "collective-permute"}
    return ", ".join(map(str, sorted(sizes))) or "-"
