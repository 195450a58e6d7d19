"""Cost of a run, and the training steps until it is saved again. Durations and tables only."""

from dataclasses import dataclass
from math import ceil

from overlayccl_core.program.json_form import loads
from overlayccl_core.report.tree import JobTime, Tree
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.probes import PROBES


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a run, from its first job to the launches that confirm its choice."""

    jobs: tuple[JobTime, ...]  # job of every rule, as last timed by Snakemake
    nodes: int | None  # nodes of the ranks; None without probes
    unknown: tuple[str, ...]  # jobs without a duration

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all jobs, one after the other."""
        return sum(job.seconds for job in self.jobs)

    def node_seconds(self, job: JobTime) -> float | None:
        """Return seconds times nodes: all nodes (None if unknown) for a measuring job, one for others."""
        if not job.declared.measures:
            return job.seconds
        return None if self.nodes is None else job.seconds * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Payback:
    """Savings of a model's deployed arm over another arm."""

    saved_us: float | None  # saving of a step; None: it is not faster
    steps: int | None  # training steps until the cost of the run is saved; None also without a known cost


def cost_of(tree: Tree) -> Cost | None:
    """Return the cost of a run; None if no job left a duration."""
    jobs = tuple(phase for phase in tree.phases if not phase.declared.shows)
    if not jobs:
        return None
    known = {job.name for job in jobs}
    counted = [name for name, rule in rules(ALL).items() if not rule.shows]
    unknown = tuple(job for name in counted for job in tree.subjects.jobs(name) if job not in known)
    return Cost(jobs=jobs, nodes=_nodes(tree), unknown=unknown)


def payback(worth: Worth, other: SplitRow | None, cost: Cost | None) -> Payback:
    """Return the break-even step: seconds of the run over the saving of a step (medians over launches).

    Savings count only if the choice stands and is faster beyond noise.
    """
    mine, speedup = worth.deployed, worth.speedup_over(other)
    if (
        mine is None
        or worth.instead is not None
        or other is None
        or speedup is None
        or not speedup.beyond_noise
        or other.step_us <= mine.step_us
    ):
        return Payback(saved_us=None, steps=None)
    saved_us = other.step_us - mine.step_us
    if cost is None or cost.unknown:
        return Payback(saved_us=saved_us, steps=None)
    return Payback(saved_us=saved_us, steps=ceil(cost.seconds * 1e6 / saved_us))


def _nodes(tree: Tree) -> int | None:
    """Count the nodes by a probe: each probe spans all ranks of the deployment."""
    probes = tree.table(PROBES, "probes")
    if probes is None or probes.is_empty():
        return None
    case = loads(probes["program_json"][0]).problem.case
    return case.ranks // case.ranks_per_node
