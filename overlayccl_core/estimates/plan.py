"""What a run will ask for, before anything is started: jobs, launches, seconds and nodes, by rule.

The finds of the search are unknown, so figures depending on them are spans.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import SearchRound
from overlayccl_core.configuration.settings import Settings, ShortlistSection
from overlayccl_core.configuration.topology import Calibration, Limit
from overlayccl_core.estimates import compiling
from overlayccl_core.estimates.sizes import developers_of
from overlayccl_core.estimates.span import NOTHING, Span, total
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rule import ALL, LAUNCH_S, Budget, on_ranks, rules
from overlayccl_core.stages.known_ways import known_ways_of
from overlayccl_core.timing.selftest import tried_first

Known = Mapping[str, float]  # `known_ways-tp_mlp` -> its seconds in a run of the same tree


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDemand:
    """All jobs of a rule together. programs: number of timed ones, compiled where a library compiles."""

    rule: str
    jobs: int
    nodes: int
    launches: int
    measuring_s: float
    start_s: float
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
        models: Models to train.
        figures: Published compile times.
        limits: Calls published as refused.
        rounds: Those of all configured searches (`search.proposer.rounds`).
    """

    deployment: Deployment
    settings: Settings
    models: Sequence[str]
    cases: Mapping[str, Sequence[Case]]
    figures: Calibration | None
    limits: Sequence[Limit] = ()
    rounds: Sequence[SearchRound] = ()

    def on_ranks(self) -> Iterator[RuleDemand]:
        """Yield the rules with the nodes to themselves, in the order of the run."""
        problems = len(self.settings.problems)
        jobs = {"selftest": 1, "probe": 1, "bench": problems, "train": len(self.models), "confirm": 1}
        jobs |= {"trial": problems * sum(one.mends for one in self.rounds)}
        for rule in (rule for rule in on_ranks() if jobs[rule] or rule != "trial"):
            one = rules()[rule].budget(self.settings, len(self.models))
            if rule == "selftest":
                times = tried_first(self.deployment, self.limits)[1]
                one = Budget(launches=times, start_s=times * LAUNCH_S)
            programs, compile_s = self._programs(rule)
            yield RuleDemand(
                rule=rule,
                jobs=jobs[rule],
                nodes=self.deployment.nodes,
                launches=jobs[rule] * one.launches,
                measuring_s=jobs[rule] * one.measuring_s,
                start_s=jobs[rule] * one.start_s,
                programs=programs,
                compile_s=compile_s,
            )

    def without_ranks(self, known: Known) -> RuleDemand:
        """Sum up all other rules. known: seconds of jobs in the last run of the tree; else a guess of each."""
        names = list(self._light())
        seconds = sum(
            known[name] if name in known else rules()[name.partition("-")[0]].budget(self.settings, 0).seconds
            for name in names
        )
        return RuleDemand(
            rule="all else", jobs=len(names), nodes=0, launches=0, measuring_s=0.0, start_s=seconds
        )

    def _light(self) -> Iterator[str]:
        """Yield the names of jobs without ranks, as their benchmark files are called."""
        light = {name: rule.of for name, rule in rules(ALL).items() if not rule.measures}
        yield from (name for name, of in light.items() if not of)
        for problem in self.settings.problems:
            yield from (f"{name}-{problem}" for name, of in light.items() if of == ("problem",))
            yield from (f"search-{problem}-{one.name}" for one in self.rounds)

    def _programs(self, rule: str) -> tuple[Span | None, Span]:
        """Return how many Programs a rule times, and the seconds to compile them; trained ones do not count."""
        if rule == "selftest":
            return self._known([one.program for one in tried_first(self.deployment, self.limits)[0]])
        if rule == "probe":
            return self._known([probe.program for probe in probes_of(self.deployment, self.settings)])
        if rule != "bench":
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
    cheapest, and the one with overlap), or the number to fill up to.
    """
    finds = settings.families + settings.random + 2
    return Span(1, max(len(known_ways_of(problem)) + finds, settings.at_least))
