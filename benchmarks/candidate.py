"""What one candidate costs at 224 ranks: trace, normalise, check and price; target 10 ms for the median known way.

CPU time of one thread. `first`: in a fresh process, nothing kept. `again`: the source parsed and traced once
more after its Program is gone, so that only layouts of equal shape are kept, as in a search.
"""

import gc
import statistics
from time import process_time

from benchmarks.alone import alone
from benchmarks.examples import PROBLEMS, example
from overlayccl_core import catalog
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.gates import legality
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import read_library
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source

TARGET_MS = 10.0
REPEATS = 15
Cell = tuple[str, str]


def report() -> list[str]:
    """Lines of text: one per known way, and the medians."""
    lines = [f"{'way at N=224, bf16':<46}{'first ms':>9}{'again ms':>9}{'collectives':>13}{'runs':>9}"]
    first, again = [], []
    for problem, strategy in ways():
        measured, _ = alone(_measure, problem, strategy)
        if isinstance(measured, str):
            lines.append(f"{problem + '/' + strategy:<46}{'not applicable: ' + measured}")
            continue
        samples, collectives, runs = measured
        first.append(samples[0])
        again.append(statistics.median(samples[1:]))
        lines.append(
            f"{problem + '/' + strategy:<46}{samples[0]:>9.1f}{again[-1]:>9.1f}{collectives:>13}{runs:>9}"
        )
    median_first, median_again = statistics.median(first), statistics.median(again)
    lines.append(f"{'median way':<46}{median_first:>9.1f}{median_again:>9.1f}   target {TARGET_MS:.0f} ms")
    return lines


def ways() -> list[Cell]:
    """(problem, strategy) of every listed known way."""
    return [
        (problem, name)
        for problem in PROBLEMS
        for name, _ in read_library(catalog.library_source(problem)).strategies
    ]


def _measure(problem_name: str, strategy: str) -> tuple[list[float], int, int] | str:
    """(milliseconds of each repeat, collectives, runs of the largest layout), or why it is not applicable."""
    problem = catalog.build(example(problem_name))
    source = catalog.library_source(problem_name)
    gc.collect()
    gc.disable()
    samples = []
    theta = Theta((), 1.0, 1.0)
    for repeat in range(REPEATS):
        begin = process_time()
        try:
            program = trace_source(source, strategy, problem)
        except NotApplicable as reason:
            return str(reason)
        _ = (program.digest, program.value_digest)
        legality.check(program, memory_budget_bytes=2**40)
        price(program, theta)
        samples.append((process_time() - begin) * 1e3)
        if repeat == 0:
            theta = _any_theta(program)
            counts = (
                len(program.calls),
                max((x.map.runs for x in program.nodes if x.kind == "view"), default=0),
            )
        del program
        gc.collect()
    return samples, *counts


def _any_theta(program: Program) -> Theta:
    """Coefficients for all that the Program needs: what they are does not change the time of a price."""
    return Theta(
        tuple(
            Coefficient(column=c, value=1.0, low=1.0, high=1.0, status=FitStatus.FITTED, programs=1)
            for c in features(program)
        ),
        residual_low=0.9,
        residual_high=1.1,
    )
