"""What a search through a proxy loses, and what it saves, where both it and a full search can be done.

`python -m benchmarks pruned [--problems NAME ...] [--thetas N]`: every Problem at 16 ranks on 4 nodes, its small
example, both directions, with thetas drawn at random around the made-up one (benchmarks/made_up.py). `full` expands
every family at the Case itself until none is new, or PROGRAMS are priced (then it is cut); `pruned` searches 8
ranks on 2 nodes and replays what promises.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np

from benchmarks import made_up
from benchmarks.cluster import TOPOLOGY
from benchmarks.examples import PROBLEMS
from overlayccl_core import catalog
from overlayccl_core.configuration import searches, topology
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import Proxy, Search
from overlayccl_core.costmodel.theta import Coefficient, Status, Theta
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.facts import DeploymentFacts
from overlayccl_core.search.loop import Stop
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.stages.search import searched

RANKS, NODES = 16, 4
PROGRAMS = 800  # of a full search
NEVER, ALWAYS = 10**9, 1
SMALL_IS_LARGE = 10**3  # bytes cost so much more: small examples then weigh as training shapes do
SPREAD = 1.0  # decades up and down in which each coefficient is drawn
HEAD = (
    f"{'problem':<18}{'searches':>9}{'cut':>5}{'mean loss':>11}{'worst':>8}{'families':>16}{'proposals':>16}"
    f"{'seconds':>16}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """(of the full search, of the pruned one). us: the best; families: that any Program is of."""

    us: tuple[float, float]
    families: tuple[int, int]
    proposals: tuple[int, int]
    seconds: tuple[float, float]
    cut: bool  # the full search, by its guard of Programs

    @property
    def loss(self) -> float:
        """How much dearer the pruned search's best is; below 0: cheaper."""
        return self.us[1] / self.us[0] - 1


def options() -> argparse.ArgumentParser:
    """What may be asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pruned", description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--thetas", type=int, default=2, help="drawn for each Problem (default: 2)")
    parser.add_argument(
        "--families",
        type=int,
        help="that are replayed (default: the search's): many show what the proxy alone loses",
    )
    return parser


def report(asked: argparse.Namespace) -> Iterator[str]:
    """A line for each Problem, and one of all."""
    yield f"{RANKS} ranks on {NODES} nodes; full against pruned"
    yield HEAD
    everything: list[Both] = []
    for problem in asked.problems:
        rows = list(of_problem(problem, asked.thetas, asked.families))
        everything += rows
        yield line(problem, rows)
    yield line("all", everything)


def line(name: str, rows: list[Both]) -> str:
    """Sums over searches; losses over those of them that came to a price."""

    def two(values: list[tuple[float, float]]) -> str:
        return f"{sum(v[0] for v in values):.0f} -> {sum(v[1] for v in values):.0f}"

    losses = [row.loss for row in rows]
    return (
        f"{name:<18}{len(rows):>9}{sum(row.cut for row in rows):>5}{mean(losses):>11.2%}{max(losses):>8.1%}"
        f"{two([row.families for row in rows]):>16}{two([row.proposals for row in rows]):>16}"
        f"{two([row.seconds for row in rows]):>16}"
    )


def of_problem(name: str, thetas: int, families: int | None) -> Iterator[Both]:
    """Both searches of both directions by every theta, of a library that can do everything."""
    entry = catalog.plug_in(name).examples(RANKS)["small"]
    case = catalog.case(name, entry, ranks=RANKS, ranks_per_node=RANKS // NODES)
    of = topology.load(TOPOLOGY)
    here = made_up.deployment(of, NODES, RANKS // NODES)
    for seed in range(thetas):
        facts = DeploymentFacts(theta=drawn(here, seed), capabilities=None, memory_budget_bytes=None)
        for problem in catalog.directions(case):
            yield from both(problem, facts, families)


def drawn(here: Deployment, seed: int) -> Theta:
    """The made-up theta with every coefficient changed by a factor of its own."""
    made = made_up.theta(topology.load(TOPOLOGY), here)
    random = np.random.default_rng(seed)
    return replace(made, coefficients=tuple(_drawn(one, random) for one in made.coefficients))


def _drawn(one: Coefficient, random: np.random.Generator) -> Coefficient:
    assert one.value is not None
    base = (one.value or 1.0) * (SMALL_IS_LARGE if one.column.unit == "us/B" and one.value else 1.0)
    value = base * 10 ** float(random.uniform(-SPREAD, SPREAD))
    return replace(one, value=value, low=value, high=value, status=Status.FITTED)


def both(problem: Problem, facts: DeploymentFacts, families: int | None) -> Iterator[Both]:
    """The full search and the pruned one; nothing where nothing is exchanged."""
    by = searches.load("offline")
    ways = list(known_way_rows(problem, facts.capabilities, facts.memory_budget_bytes))
    full = by.changed(
        proxy=Proxy(nodes=NEVER, ranks=NEVER), settled=NEVER, families=ALWAYS, random=0, programs=PROGRAMS
    )
    pruned = by.changed(proxy=Proxy(nodes=1, ranks=1), families=families or by.families)
    whole, part = _found(problem, ways, full, facts), _found(problem, ways, pruned, facts)
    if whole is None or part is None:
        return
    (us, count, proposals, seconds, cut), (us_, count_, proposals_, seconds_, _) = whole, part
    yield Both(
        us=(us, us_),
        families=(count, count_),
        proposals=(proposals, proposals_),
        seconds=(seconds, seconds_),
        cut=cut,
    )


def _found(
    problem: Problem, ways: list[dict[str, object]], by: Search, facts: DeploymentFacts
) -> tuple[float, int, int, float, bool] | None:
    """(best us, families, proposals, seconds, whether it was cut); None where there is nothing to search."""
    begun = time.process_time()
    tables = dict(searched(problem, ways, by, facts, time.monotonic, lambda _text: None))
    seconds = time.process_time() - begun
    if "candidates" not in tables:
        return None
    rows = tables["candidates"]
    us = min(
        row["predicted_us"]
        for row in rows
        if row["equivalence"] == "pass" and row["predicted_us"] is not None and row["numerics"] != "lossy"
    )
    cut = tables["search_ends"][0]["why"] != Stop.NO_NEW_ELITE
    return us, len({row["family"] for row in rows}), len(tables["sketches"]), seconds, cut
