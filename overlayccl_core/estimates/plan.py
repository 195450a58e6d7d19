"""What a run will ask for, before anything is started: jobs, launches, seconds and nodes, by rule.

The finds of the search are unknown, so figures depending on them are spans.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import SearchRound
from overlayccl_core.configuration.sections import ShortlistSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.configuration.topology import ClusterTimes, Limit
from overlayccl_core.estimates import compiling
from overlayccl_core.estimates.sizes import developers_of
from overlayccl_core.estimates.span import NOTHING, Span, total
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rule import ALL, LAUNCH_S, Budget, Programs, Subjects, rules
from overlayccl_core.stages.known_ways import known_ways_of
from overlayccl_core.timing.selftest import tried_first

Known = Mapping[str, float]  # `known_ways-tp_mlp` -> its seconds in a run of the same tree


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDemand:
    """All jobs of a rule together. programs: number of timed ones, compiled where a library compiles."""

    rule: str
    jobs: int
    nodes: int
    start_s: float
    launches: int = 0
    measuring_s: float = 0.0
    programs: Span | None = None
    compile_s: Span = NOTHING

    @property
    def seconds(self) -> Span:
        """Time of one job after another."""
        return self.compile_s + (self.measuring_s + self.start_s)

    @property
    def node_seconds(self) -> Span:
        """Time of nodes: a measuring job has all nodes to itself."""
        return self.seconds * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has not begun.

    Attributes:
        figures: Published compile times.
        limits: Calls published as refused.
        rounds: Those of all configured searches (`search.proposer.rounds`).
    """

    deployment: Deployment
    settings: Settings
    cases: Mapping[str, Sequence[Case]]
    figures: ClusterTimes | None
    limits: Sequence[Limit] = ()
    rounds: Sequence[SearchRound] = ()

    def on_ranks(self) -> Iterator[RuleDemand]:
        """Yield the rules with the nodes to themselves, in the order of the run."""
        for rule, declared in rules(ALL).items():
            jobs = len(self._subjects.jobs(rule))
            if not declared.measures or (declared.second_round and not jobs):
                continue
            one = declared.budget_of(self.settings, len(self.settings.models))
            if declared.programs is Programs.PRIMITIVES:
                times = tried_first(self.deployment, self.limits)[1]
                one = Budget(launches=times, start_s=times * LAUNCH_S)
            programs, compile_s = self._programs(declared.programs)
            yield RuleDemand(
                rule=rule,
                jobs=jobs,
                nodes=self.deployment.nodes,
                launches=jobs * one.launches,
                measuring_s=jobs * one.measuring_s,
                start_s=jobs * one.start_s,
                programs=programs,
                compile_s=compile_s,
            )

    def without_ranks(self, known: Known) -> RuleDemand:
        """Sum up all other rules. known: seconds of jobs in the last run of the tree; else a guess of each."""
        seconds = [
            known.get(job, rule.budget_of(self.settings, len(self.settings.models)).seconds)
            for name, rule in rules(ALL).items()
            if not rule.measures
            for job in self._subjects.jobs(name)
        ]
        return RuleDemand(rule="all else", jobs=len(seconds), nodes=0, start_s=sum(seconds))

    @property
    def _subjects(self) -> Subjects:
        of = self.settings
        rounds = {problem: [one.name for one in self.rounds] for problem in of.problems}
        return Subjects(problems=of.problems, models=of.models, searches=rounds)

    def _programs(self, timed: Programs | None) -> tuple[Span | None, Span]:
        """Return how many Programs a rule times, and the seconds to compile them."""
        if timed is Programs.PRIMITIVES:
            return self._known([one.program for one in tried_first(self.deployment, self.limits)[0]])
        if timed is Programs.PROBES:
            return self._known([probe.program for probe in probes_of(self.deployment, self.settings)])
        if timed is not Programs.SHORTLISTS:
            return None, Span()
        counted, compiled = [], []
        for problem, developer in self._exchanging():
            listed = listed_of(problem, self.settings.shortlist)
            counted.append(listed)
            if self.figures is not None:
                compiled.append(compiling.of_unknown(listed, developer, self.figures))
        return total(counted), total(compiled)

    def _known(self, programs: Sequence[Program]) -> tuple[Span, Span]:
        compile_s = Span() if self.figures is None else compiling.of_known(programs, self.figures)
        return Span(len(programs), len(programs)), compile_s

    def _exchanging(self) -> Iterator[tuple[Problem, Program]]:
        """Yield every Case and direction with an exchange, with the developer's Program."""
        for cases in self.cases.values():
            for case in cases:
                yield from (pair for pair in developers_of(case) if pair[1].collectives)


def listed_of(problem: Problem, settings: ShortlistSection) -> Span:
    """Return the number of timed Programs of a Case and direction.

    At least the developer's. At most all known strategies and the finds added by `stages.shortlist` (among them the
    cheapest, and those with overlap), or the number to fill up to.
    """
    overlapping = 0 if problem.case.uniform else settings.overlapping
    finds = settings.families + settings.random + overlapping + 1
    return Span(1, max(len(known_ways_of(problem)) + finds, settings.at_least))
