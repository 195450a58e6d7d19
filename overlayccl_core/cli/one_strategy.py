"""Trace, prove, price and time one strategy, for `overlayccl try`, `score` and `prove`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimedProgram, TimingSettings
from overlayccl_core.cli.context import Context
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.costmodel.price import Price, price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.program import Program
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.timing.batch import TimingBatch, time_programs
from overlayccl_core.timing.partial import LOGS, once

YOURS = "yours"  # the role of the user's strategy
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A traced strategy and its verdicts; `equivalence` is None if it is not legal."""

    program: Program
    legality: Verdict
    equivalence: Verdict | None

    @property
    def passed(self) -> bool:
        """Whether it is legal and equal to the reference."""
        return self.equivalence is not None and self.equivalence.passed

    @property
    def deciding(self) -> Verdict:
        """The deciding verdict."""
        return self.equivalence or self.legality


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyLine:
    """One line of the comparison: a proven Program with its price and its samples, if any.

    Attributes:
        names: All names of this Program, the user's strategy first.
        roles: Roles of these names; `yours` is the user's strategy.
    """

    names: tuple[str, ...]
    roles: frozenset[str]
    program: Program
    price: Price | None
    timed: Measurement | None

    @property
    def name(self) -> str:
        """For instance `mine = native`."""
        return " = ".join(self.names)


def judge(program: Program, capabilities: Capabilities | None, memory_budget_bytes: int | None) -> Proof:
    """Pass a Program of either direction through both gates."""
    legal = legality.check(program, capabilities, memory_budget_bytes)
    proof = _equivalence(program) if legal.passed else None
    return Proof(program=program, legality=legal, equivalence=proof)


def _equivalence(program: Program) -> Verdict:
    """Prove it; a lossy strategy may be as far off in its own dtypes as the developer's."""
    problem = program.problem
    reference = catalog.reference_program(problem)
    verdict = equivalence.prove(program, reference)
    if verdict.reason is not Reason.INACCURATE:
        return verdict
    developer = catalog.developer_program(problem)
    return equivalence.prove(program, reference, lossy_bound=equivalence.lossy_bound_of(developer, reference))


def beside_known_ways(where: Context, name: str, proof: Proof, theta: Theta | None) -> list[StrategyLine]:
    """Return a proven strategy and the proven known ways, priced if there is a theta; each Program once."""
    problem, can = proof.program.problem, where.capabilities()
    named = [(name, YOURS, proof.program)] + [
        (way["strategy"], way["role"], loads(way["program_json"]))
        for way in known_way_rows(problem, can, where.deployment.memory_budget_bytes)
        if way["legality"] == way["equivalence"] == Outcome.PASS
    ]
    same: dict[str, list[tuple[str, str, Program]]] = {}
    for one in named:
        same.setdefault(one[2].digest, []).append(one)
    return [
        StrategyLine(
            names=tuple(dict.fromkeys(strategy for strategy, _, _ in group)),
            roles=frozenset(role for _, role, _ in group),
            program=group[0][2],
            price=price(group[0][2], theta) if theta else None,
            timed=None,
        )
        for group in same.values()
    ]


def measure(
    listed: Sequence[StrategyLine], deployment: Deployment, seconds: float, results: Path, progress: Progress
) -> list[StrategyLine]:
    """Return the same with new samples, all taken in one launch (`timed_once`)."""
    backend = backend_of(deployment)
    jobs = [Job(key=_key(one), program=one.program, source=backend.emit(one.program)) for one in listed]
    programs = {_key(one): one.program for one in listed}
    timed = timed_once(jobs, deployment, seconds, results, progress)
    samples = measurements(one.columns(programs[one.key]) for one in timed)
    return [replace(one, timed=samples.get(one.program.digest)) for one in listed]


def timed_once(
    jobs: Sequence[Job], deployment: Deployment, seconds: float, results: Path, progress: Progress
) -> list[TimedProgram]:
    """Time jobs in one launch. A user waits for the answer: a disturbed launch is marked, not repeated.

    Args:
        results: The tree for the work of launches, visible to all nodes, and for the evidence of failed ranks.
    """
    timing = TimingSettings(seconds=seconds, repeat_disturbed=False)
    with once(results, "try-") as folder:
        batch = TimingBatch(
            jobs=jobs,
            deployment=deployment,
            settings=timing,
            partial_dir=folder,
            batch_name="try",
            logs=results / LOGS,
        )
        return time_programs(batch, progress)


def _key(one: StrategyLine) -> str:
    """Return a unique key: a file's function may have the name of a known way, but another Program."""
    return f"{one.names[0]}-{one.program.digest[:8]}"
