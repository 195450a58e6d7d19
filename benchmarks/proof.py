"""What one proof costs at 224 ranks and training shapes: target 2 s and 1 GiB for every seed and its backward.

Each in a process of its own.
"""

from itertools import product
from time import process_time

from benchmarks.alone import alone
from benchmarks.candidate import seeds
from benchmarks.train_cases import train_case
from overlayccl_core import catalog, loader
from overlayccl_core.gates import equivalence
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import backward_problem, transpose

TARGET_S, TARGET_MIB = 2.0, 1024.0
DTYPES = ("bfloat16", "float32")


def report() -> list[str]:
    """Lines of text: one per seed and dtype, and the worst."""
    lines = [
        f"{'proof at N=224':<46}{'dtype':>9}{'direction':>10}{'seconds':>9}{'MiB':>7}{'atoms':>9}  outcome"
    ]
    worst_s = worst_mib = 0.0
    for problem, strategy in seeds():
        for dtype, direction in product(DTYPES, Direction):
            measured, peak_mib = alone(_measure, problem, strategy, dtype, direction)
            head = f"{problem + '/' + strategy:<46}{dtype:>9}{direction.value:>10}"
            if isinstance(measured, str):
                lines.append(f"{head}  not applicable: {measured}")
                continue
            seconds, outcome, atoms, numerics = measured
            worst_s, worst_mib = max(worst_s, seconds), max(worst_mib, peak_mib)
            lines.append(f"{head}{seconds:>9.2f}{peak_mib:>7.0f}{atoms:>9}  {outcome} {numerics}")
    limits = f"target {TARGET_S:.0f} s, {TARGET_MIB:.0f} MiB"
    lines.append(f"{'worst':<46}{'':>19}{worst_s:>9.2f}{worst_mib:>7.0f}   {limits}")
    return lines


def _measure(
    problem_name: str, strategy: str, dtype: str, direction: Direction
) -> tuple[float, str, int, str] | str:
    """(CPU seconds, outcome, atoms of the largest value, numerics class), or why it is not applicable."""
    problem = catalog.build(train_case(problem_name, dtype))
    source = catalog.library_source(problem_name)
    reference = catalog.reference_program(problem)
    try:
        program = trace_source(source, strategy, problem)
    except NotApplicable as reason:
        return str(reason)
    bound = equivalence.lossy_bound_of(catalog.developer_program(problem), reference)
    if direction is Direction.BACKWARD:
        if not loader.load("problems", problem_name).has_backward(problem.case):
            return "it has no backward"
        backward = backward_problem(problem)
        program, reference = (simplify(transpose(x, backward)) for x in (program, reference))
    begin = process_time()
    proof = equivalence.prove(program, reference, lossy_bound=bound)
    seconds = process_time() - begin
    evidence = dict(proof.evidence)
    return seconds, proof.outcome.value, int(evidence["atoms"]), str(evidence["numerics"])
