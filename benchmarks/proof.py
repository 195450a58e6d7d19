"""What one proof costs at 224 ranks and training shapes: target 2 s and 1 GiB for every known way and its backward.

Each in a process of its own. `sweep` does the same at all sizes, at every example of a Problem.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

from benchmarks.alone import alone
from benchmarks.examples import PROBLEMS, example
from overlayccl_core import catalog
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.numerics import LOSSY_TOLERANCE
from overlayccl_core.program.problem import Direction
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.known_ways import known_ways_of

TARGET_S, TARGET_MIB = 2.0, 1024.0
DTYPES = ("bfloat16", "float32")
LOOP = 300_000
HEAD = f"{'proof':<80}{'seconds':>9}{'MiB':>7}{'atoms':>9}  outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One proof: CPU seconds of it, of the trace and the legality before it, the largest resident MiB of a process
    that did nothing else, and CPU milliseconds of a fixed Python loop there: how slow the machine was."""

    case: str
    direction: str
    strategy: str
    verdict: Verdict
    seconds: float
    before_s: float
    mib: float
    loop_ms: float


def report() -> list[str]:
    """Lines of text: one per known way and dtype, and the worst."""
    proofs = [p for name in PROBLEMS for d in DTYPES for p in proofs_at(example(name, dtype=d))]
    seconds, mib = max(p.seconds for p in proofs), max(p.mib for p in proofs)
    worst = f"worst: {seconds:.2f} s, {mib:.0f} MiB; target {TARGET_S:.0f} s, {TARGET_MIB:.0f} MiB"
    return [HEAD, *map(line, proofs), worst]


def line(proof: Proof) -> str:
    """One proof as a line of text."""
    head = f"{f'{proof.case} {proof.direction} {proof.strategy}':<80}"
    verdict, evidence = proof.verdict, dict(proof.verdict.evidence)
    if verdict.outcome is Outcome.NOT_APPLICABLE:
        return f"{head}  not applicable: {verdict.message}"
    figures = f"{proof.seconds:>9.2f}{proof.mib:>7.0f}{evidence.get('atoms', 0):>9}"
    why = evidence["numerics"] if verdict.passed else verdict.message
    return f"{head}{figures}  {verdict.outcome.value} {why}"


def proofs_at(case: Case) -> Iterator[Proof]:
    """Every known way of both directions, each in a process of its own."""
    for problem in catalog.directions(case):
        bound, _ = alone(_lossy_bound, case, problem.direction)
        for way in known_ways_of(problem):
            (verdict, seconds, before_s, loop_ms), mib = alone(
                _prove, case, problem.direction, way.recipe, bound
            )
            yield Proof(
                case=case.id,
                direction=problem.direction.value,
                strategy=way.name,
                verdict=verdict,
                seconds=seconds,
                before_s=before_s,
                mib=mib,
                loop_ms=loop_ms,
            )


def _lossy_bound(case: Case, direction: Direction) -> float:
    problem = catalog.in_direction(case, direction)
    try:
        return equivalence.lossy_bound_of(
            catalog.developer_program(problem), catalog.reference_program(problem)
        )
    except (NotApplicable, Rejected):
        return LOSSY_TOLERANCE


def _prove(
    case: Case, direction: Direction, recipe: Recipe, bound: float
) -> tuple[Verdict, float, float, float]:
    """The verdict, CPU seconds of the proof, of what is before it, CPU milliseconds of the loop."""
    loop_ms = _loop_ms()
    problem = catalog.in_direction(case, direction)
    begin = process_time()
    try:
        program, reference = replay(recipe, problem), catalog.reference_program(problem)
    except NotApplicable as error:
        return _not_traced(Outcome.NOT_APPLICABLE, Reason.NOT_APPLICABLE, error), 0.0, 0.0, loop_ms
    except Rejected as error:
        return _not_traced(Outcome.FAIL, Reason.NOT_IN_LANGUAGE, error), 0.0, 0.0, loop_ms
    verdict = legality.check(program)
    legal = process_time()
    if verdict.passed:
        verdict = equivalence.prove(program, reference, lossy_bound=bound)
    return verdict, process_time() - legal, legal - begin, loop_ms


def _not_traced(outcome: Outcome, reason: Reason, error: Exception) -> Verdict:
    return Verdict(gate=Gate.LEGALITY, outcome=outcome, reason=reason, message=str(error))


def _loop_ms() -> float:
    begin = process_time()
    total = 0
    for i in range(LOOP):
        total += i
    return (process_time() - begin) * 1e3
