"""Facts of a rule of the DAG, besides its stage, its inputs and its outputs: declared in `dag/<rule>.py`.

They are outside the digest of a rule's code: another expected time measures nothing again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from overlayccl_core import loader

ALL = "all"  # the default target
FOLDER = "dag"
BATCH_S = 15.0  # a batch starts ranks, builds modules and calibrates
LAUNCH_S = 5.0  # a training launch starts ranks, and takes untimed steps
GRADIENTS_S = 5.0  # the first launch of a model compares gradients,
LOSSES_S = 10.0  # and losses before a choice
ANY_OTHER_S = 5.0


class PlugIns(StrEnum):
    """Plug-ins a stage loads by name: part of its code, though nothing imports them."""

    BACKEND = "the backend of the deployment"
    LAUNCHER = "what starts its ranks"
    DEPLOYED = "what prints its deployed modules"
    MODEL = "the model of the job, or all that are configured, with the Problems at their sites"
    PROBLEMS = "all Problems that are configured"
    INVOLVED = "the Problem of the job, and those whose libraries solve its backward"
    STRATEGIES = "their strategies"
    CAPTURED = "the Problem of captured calls, and its strategies"
    SWEPT = "the Problem whose payloads are swept, and its strategies"
    WORKLOADS = "what their Cases are made from"
    REWRITES = "all rewrite rules"
    PROPOSER = "who proposes in a search, its style and the ways that it may use"


RANKS = (PlugIns.BACKEND, PlugIns.LAUNCHER)


class Programs(StrEnum):
    """Programs timed by all jobs of a rule: the estimate counts them, and their compiling."""

    PRIMITIVES = "single calls of the library, those over a published limit in launches of their own"
    PROBES = "the sweep"
    SHORTLISTS = "from the developer's alone to all that may be listed at each Case and direction"
    UNCOUNTED = "of training steps, or too few to count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A job's number of launches, seconds of timing in all of them, and all other seconds.

    Rounded to 5 s, of four ranks on two cores, without compiling. A finished run tells its own times.
    """

    launches: int = 0
    measuring_s: float = 0.0
    start_s: float = ANY_OTHER_S

    @property
    def seconds(self) -> float:
        """Both times."""
        return self.measuring_s + self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the DAG.

    Attributes:
        place: Its place in lists of rules, in the order of a run; several may have one.
        of: Wildcards of its jobs, besides the deployment: `problem`, `model`, `search`.
        second_round: How the name of a second round ends, if its jobs are of the searches that have one.
        like: The rule of its stage, if that is another: its jobs bear that name, and count there.
        target: The target asking for it.
        measures: It starts ranks, and has every node to itself.
        programs: What it then times; a rule of `all` has to say.
        packs: It packs the tree into one file beside it, so its target leaves no folder.
        shows: It only shows results: its seconds are no cost of a find (`report/payback.py`).
        budget: The budget of one job; or of the rule's settings and the number of configured models.
    """

    place: int
    of: tuple[str, ...] = ()
    second_round: str = ""
    like: str = ""
    target: str = ALL
    measures: bool = False
    programs: Programs | None = None
    packs: bool = False
    shows: bool = False
    plugins: tuple[PlugIns, ...] = ()
    budget: Budget | Callable[[Any, int], Budget] = Budget()

    def __post_init__(self) -> None:
        if self.measures and self.target == ALL and self.programs is None:
            raise ValueError("a rule that measures says what it times: give it programs=Programs....")

    def budget_of(self, settings: Any, models: int) -> Budget:
        """Return the budget of one job."""
        return self.budget if isinstance(self.budget, Budget) else self.budget(settings, models)


@cache
def rules(target: str | None = None) -> Mapping[str, Rule]:
    """Return all declared rules by name, in the order of a run; of one target if given."""
    known = {name: loader.load(FOLDER, name).RULE for name in loader.names(FOLDER)}
    of = {name: rule for name, rule in known.items() if target in (None, rule.target)}
    return dict(sorted(of.items(), key=lambda one: one[1].place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """What the jobs of a run are of. searches: Problem -> the names of all rounds of its searches."""

    problems: Sequence[str]
    models: Sequence[str]
    searches: Mapping[str, Sequence[str]]

    def jobs(self, name: str, *, of_all: bool = False) -> list[str]:
        """Return the names of a rule's jobs, as their logs have them: `fit`, `search-tp_mlp-offline`.

        of_all: also of searches whose second round is not there, or not yet.
        """
        rule = rules()[name]
        suffix = "" if of_all else rule.second_round
        jobs: list[tuple[str, ...]] = [] if rule.like else [(name,)]
        for wildcard in rule.of:
            jobs = [(*job, value) for job in jobs for value in self._values(wildcard, suffix, job[1:])]
        return ["-".join(job) for job in jobs]

    def _values(self, wildcard: str, suffix: str, problem: Sequence[str]) -> Sequence[str]:
        if wildcard != "search":
            return self.problems if wildcard == "problem" else self.models
        rounds = dict.fromkeys(name for one in problem or self.problems for name in self.searches[one])
        return [name.removesuffix(suffix) for name in rounds if name.endswith(suffix)]


def targets() -> tuple[str, ...]:
    """Return the targets that leave a folder of their name in a results tree."""
    return tuple(
        dict.fromkeys(rule.target for rule in rules().values() if rule.target != ALL and not rule.packs)
    )
