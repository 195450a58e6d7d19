"""Cost of a run, and the training steps until it is saved again. Durations and tables only.

A run's jobs serve several models. Alone, a model needed every job that served it, each in full. Its share of a job
is an even one, with the other models of the job, so shares add up to the whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
import polars as pl

from overlayccl_core.measuring.figures import figures
from overlayccl_core.program.json_form import loads
from overlayccl_core.report.blocks import NOTHING, ms
from overlayccl_core.report.tree import JobTime, Tree
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STAMPS

NEVER = "never: not faster beyond noise"
UNTRAINED = "Problems that no model has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a run, from its first job to the launches that confirm its choice.

    Attributes:
        jobs: Job of every rule.
        nodes: Nodes of the ranks; None without probes.
        unknown: Jobs without a duration.
        trains: Model -> the Problems at its sites.
        problems: All Problems of the run.
        node_usd_per_hour: Price of a node; None: no money is told.
        asked_usd: What answers of language models cost; None: nothing was asked, or it has no price.
    """

    jobs: tuple[JobTime, ...]
    nodes: int | None
    unknown: tuple[str, ...]
    trains: Mapping[str, frozenset[str]] = field(default_factory=dict)
    problems: frozenset[str] = frozenset()
    node_usd_per_hour: float | None = None
    asked_usd: float | None = None

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all jobs, one after the other."""
        return sum(job.seconds for job in self.jobs)

    @property
    def node_seconds(self) -> float | None:
        """Seconds of nodes; None if their number is unknown."""
        each = [self.node_seconds_of(job) for job in self.jobs]
        return None if None in each else sum(one for one in each if one is not None)

    def node_seconds_of(self, job: JobTime) -> float | None:
        """Return seconds times nodes: all nodes (None if unknown) for a measuring job, one for others."""
        if not job.declared.measures:
            return job.seconds
        return None if self.nodes is None else job.seconds * self.nodes

    def usd(self, node_seconds: float | None) -> float | None:
        """Return the price of seconds of nodes in US dollars; None if one of the two is unknown."""
        if self.node_usd_per_hour is None or node_seconds is None:
            return None
        return node_seconds / 3600 * self.node_usd_per_hour

    @property
    def by_rule(self) -> Mapping[str, tuple[JobTime, ...]]:
        """The jobs of each rule, in the order of a run."""
        inside = sorted(self.jobs, key=lambda job: (job.declared.place, job.name))
        names = dict.fromkeys(job.rule for job in inside)
        return {name: tuple(job for job in inside if job.rule == name) for name in names}

    def served(self, job: JobTime) -> tuple[str, ...]:
        """Return whom a job served: the models, and `UNTRAINED` for Problems at no model's site."""
        subject = job.subject
        if "model" in subject:
            return (subject["model"],)
        of = {subject["problem"]} if "problem" in subject else self.problems
        models = tuple(model for model, trained in self.trains.items() if trained & of)
        rest = of - frozenset().union(*self.trains.values())
        return (*models, UNTRAINED) if rest or not models else models

    def alone(self, model: str) -> "Cost":
        """Return what a model needed, as if it had been the only one: each job that served it, in full."""
        return replace(self, jobs=tuple(job for job in self.jobs if model in self.served(job)))

    def shares(self) -> Mapping[str, float]:
        """Return whom the jobs served -> seconds: each job's, spread evenly. Their sum is `seconds`."""
        shares = dict.fromkeys((*self.trains, UNTRAINED), 0.0)
        for job in self.jobs:
            served = self.served(job)
            for one in served:
                shares[one] = shares.get(one, 0.0) + job.seconds / len(served)
        return {who: seconds for who, seconds in shares.items() if seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Training steps until a cost is saved, with the ends of the interval that the gain's has."""

    value: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Payback:
    """Savings of what is deployed over another arm.

    Attributes:
        saved_us: Saving of a step, with the ends of its interval; None: nothing is saved, never.
        steps: Until the cost is saved; None also without a known cost.
        steps_of_nodes: Until its node-seconds are, and so their money: a search holds one node, a step all of them.
            None also on a single node, where both are the same.
    """

    saved_us: tuple[float, float, float] | None = None
    steps: Steps | None = None
    steps_of_nodes: Steps | None = None


NOTHING_SAVED = Payback()


def cost_of(tree: Tree) -> Cost | None:
    """Return the cost of a run; None if no job left a duration."""
    jobs = tuple(phase for phase in tree.phases if not phase.declared.shows)
    if not jobs:
        return None
    known = {job.name for job in jobs}
    counted = [name for name, rule in rules(ALL).items() if not rule.shows]
    unknown = tuple(job for name in counted for job in tree.subjects.jobs(name) if job not in known)
    return Cost(
        jobs=jobs,
        nodes=_nodes(tree),
        unknown=unknown,
        trains=_trains(tree),
        problems=frozenset(tree.problems),
        node_usd_per_hour=tree.node_usd_per_hour,
        asked_usd=_asked_usd(tree),
    )


def payback(worth: Worth, other: SplitRow | None, cost: Cost | None, more_us: float = 0.0) -> Payback:
    """Return when what a model needed alone is saved: its seconds over the saving of a step.

    A saving counts only if the choice stands and is faster beyond noise. It is the deployed arm's step times its
    gain less 1, so its interval is the gain's.

    Args:
        cost: Of the whole run.
        more_us: What a start of the deployed arm takes more than one of the other (`start_us`).
    """
    saved = _saved_us(worth, other)
    if saved is None:
        return NOTHING_SAVED
    return _paid(cost and cost.alone(worth.model), saved, more_us)


def together(worths: Sequence[tuple[Worth, SplitRow | None, float]], cost: Cost | None) -> Payback:
    """Return when the whole run is saved, if all models train side by side, a step of each in turn.

    Every job counts once. A model that gains nothing saves nothing. The ends of the interval are those of all
    gains at once, so it is wide.

    Args:
        worths: (model, what it is compared with, microseconds that a start takes more).
    """
    saved = [(told, more) for worth, other, more in worths if (told := _saved_us(worth, other))]
    if not saved:
        return NOTHING_SAVED
    value, low, high = (sum(told[n] for told, _ in saved) for n in range(3))
    return _paid(cost, (value, low, high), sum(more for _, more in saved))


def together_over(tree: Tree, worths: Sequence[Worth], cost: Cost | None, *, rival: bool) -> Payback:
    """Return when the whole run is saved, over the rivals or over developer's calls."""
    pairs = [(worth, rival_of(worth) if rival else worth.developer) for worth in worths]
    return together([(worth, other, start_us(tree, worth, other)) for worth, other in pairs], cost)


def rival_of(worth: Worth) -> SplitRow | None:
    """Return the rival that a find is paid back over; None where a known way stands: nothing had to be found."""
    return None if worth.needs_no_search(worth.rival) else worth.rival


def steps_text(paid: Payback) -> str:
    """Format steps with their interval: `13,800 (11,200..17,900) steps`; `never: ...`."""
    if paid.saved_us is None:
        return NEVER
    if paid.steps is None:
        return f"{NOTHING}; saves {ms(paid.saved_us[0])} a step"
    by_nodes = f"; by node-seconds {_text(paid.steps_of_nodes)}" if paid.steps_of_nodes else ""
    return f"{_text(paid.steps)} steps{by_nodes}"


def _text(steps: Steps) -> str:
    value, low, high = map(figures, (steps.value, steps.low, steps.high))
    return f"{value} ({low}..{high})"


def start_us(tree: Tree, worth: Worth, other: SplitRow | None) -> float:
    """Return what a start of the deployed arm takes more than one of another: loading, allocating, compiling.

    It is the excess of the cold steps over as many steady ones, median over the launches after the choice.
    """
    mine = worth.deployed
    if mine is None or other is None:
        return 0.0
    return _cold_us(tree, worth, mine) - _cold_us(tree, worth, other)


def cold_steps_us(tree: Tree, worth: Worth, one: SplitRow) -> list[list[float]]:
    """Return the cold steps of an arm, [launch][step], in the launches after the choice."""
    steps = tree.table(CONFIRMED_STEPS, "confirmed_steps")
    if steps is None:
        return []
    here = steps.filter(model=worth.model, microbatches=one.microbatches)
    arm = one.arm if (here["arm"] == one.arm).any() else one.ran_as
    return [us for us in here.filter(arm=arm)["cold_us"].to_list() if us]


def _cold_us(tree: Tree, worth: Worth, one: SplitRow) -> float:
    cold = cold_steps_us(tree, worth, one)
    return float(np.median([sum(us) - len(us) * one.step_us for us in cold])) if cold else 0.0


def _saved_us(worth: Worth, other: SplitRow | None) -> tuple[float, float, float] | None:
    mine, speedup = worth.deployed, worth.speedup_over(other)
    if mine is None or worth.instead is not None or speedup is None or not speedup.beyond_noise:
        return None
    assert speedup.low is not None and speedup.high is not None  # it has an interval
    value, low, high = (mine.step_us * (ratio - 1) for ratio in (speedup.value, speedup.low, speedup.high))
    return value, low, high


def _paid(cost: Cost | None, saved_us: tuple[float, float, float], more_us: float) -> Payback:
    if cost is None or cost.unknown:
        return Payback(saved_us=saved_us)
    of_nodes = None
    if cost.nodes is not None and cost.nodes > 1 and cost.node_seconds is not None:
        of_nodes = _steps(cost.node_seconds / cost.nodes, saved_us, more_us)
    return Payback(saved_us=saved_us, steps=_steps(cost.seconds, saved_us, more_us), steps_of_nodes=of_nodes)


def _steps(seconds: float, saved_us: tuple[float, float, float], more_us: float) -> Steps:
    whole_us = max(seconds * 1e6 + more_us, 0.0)
    value, fewest, most = (ceil(whole_us / saved_us[n]) for n in (0, 2, 1))
    return Steps(value=value, low=fewest, high=most)


def _nodes(tree: Tree) -> int | None:
    """Count the nodes by a probe: each probe spans all ranks of the deployment."""
    probes = tree.table(PROBES, "probes")
    if probes is None or probes.is_empty():
        return None
    case = loads(probes["program_json"][0]).problem.case
    return case.ranks // case.ranks_per_node


def _trains(tree: Tree) -> dict[str, frozenset[str]]:
    return {model: _at_sites(tree.table(STAMPS, f"train/{model}/stamps")) for model in tree.models}


def _at_sites(stamps: pl.DataFrame | None) -> frozenset[str]:
    return frozenset() if stamps is None else frozenset(stamps["problem"])


def _asked_usd(tree: Tree) -> float | None:
    """Sum up what answers cost, each once: one that was recorded before had cost as much."""
    calls = tree.of_searches(CALLS)
    if calls is None:
        return None
    usd = calls.unique("digest")["usd"].drop_nulls()
    return None if usd.is_empty() else float(usd.sum())


def known_sum(amounts: Iterable[float | None]) -> float | None:
    """Return a sum; None if one of the amounts is unknown."""
    each = list(amounts)
    return None if None in each else sum(one for one in each if one is not None)
