"""What the search finds from the developer's strategy alone, against what it finds from all known ways.

On the coefficients of a finished run: `python -m benchmarks from_developer`. The search is to end
within 2% by itself, as a new Problem has no library of known ways. Below, at the small example of every
Problem: the strategies whose values, node by node, are not among all that it prices, and why they are not.
"""

import time
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog, loader
from overlayccl_core.configuration import searches
from overlayccl_core.configuration.deployment import load
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.stages.search import searched
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.table import read
from overlayccl_core.tables.theta import THETA

LIMIT = 0.02
RANKS = 4  # of the small examples, on one node

Row = dict[str, Any]


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for each Case and direction, whether all are within the limit; what of each library is not met."""
    here = DeploymentFacts(
        theta=theta_of(read(THETA, tree / "theta.parquet"), read(FIDELITY, tree / "fidelity.parquet")),
        capabilities=Capabilities.from_rows(
            read(CAPABILITIES, tree / "capabilities.parquet").iter_rows(named=True)
        ),
        memory_budget_bytes=load(Path("config/deployments/local.yaml")).memory_budget_bytes,
    )
    lines = ["predicted us: cheapest from all known ways, from developer alone, above (limit 2%)"]
    worst = 0.0
    for problem in sorted(path.name for path in (tree / "problems").iterdir()):
        for where, all_known_ways, alone in compared(tree / "problems" / problem, here):
            worst = max(worst, alone / all_known_ways - 1)
            lines.append(
                f"  {where:46s} {all_known_ways:10.0f} {alone:10.0f}  {alone / all_known_ways - 1:+.1%}"
            )
    lines.append(f"worst: {worst:.1%}: {'within' if worst <= LIMIT else 'ABOVE'} the limit")
    lines.append(
        "met by the search from developer alone, value by value, of the strategies; those not met, why"
    )
    for name in loader.names("problems"):
        entry = catalog.plug_in(name).examples(RANKS)["small"]
        case = catalog.case(name, entry, ranks=RANKS, ranks_per_node=RANKS, dtype="float32")
        for direction in catalog.directions(case):
            if why := why_not_met(direction, here):
                where, missed = f"{case.id} {direction.direction.value}", {k: v for k, v in why.items() if v}
                lines.append(f"  {where:46s} {len(why) - len(missed):4d} of {len(why):2d}")
                lines += [f"    {strategy}: {said}" for strategy, said in missed.items()]
    return lines


def why_not_met(problem: Problem, here: DeploymentFacts) -> dict[str, str]:
    """Strategy -> why the search from the developer's alone prices no Program of its values; empty: it does.

    {} where there is no search, as nothing is exchanged.
    """
    ways = list(known_way_rows(problem, here.capabilities, here.memory_budget_bytes))
    found = _from_developer(problem, ways, here)
    values = {row["value_digest"] for row in found}
    priced = {row["value_digest"]: row for row in _searched(problem, ways, here)}
    return {
        row["strategy"]: "" if row["value_digest"] in values else _why(priced[row["value_digest"]], found)
        for row in ways
        if found and row["value_digest"] in priced
    }


def _why(strategy: Row, found: list[Row]) -> str:
    """By what it prices and by what is found of its family: a family's elites alone are rewritten further."""
    family = [row for row in found if row["family"] == strategy["family"]]
    if not family:
        return f"no rule led to its family from what was cheap ({strategy['family']})"
    priced = [row["predicted_us"] for row in family if row["predicted_us"] is not None]
    if not priced or strategy["predicted_us"] is None:
        return "its family has no price here"
    of_family, mine = min(priced), strategy["predicted_us"]
    word = "no cheaper than" if of_family <= mine else "CHEAPER than"
    return f"{mine:.0f} us, {word} what stands for its family ({of_family:.0f} us)"


def _from_developer(problem: Problem, ways: list[Row], here: DeploymentFacts) -> list[Row]:
    """The candidates of the search from the developer's strategy; none where there is no search."""
    return _searched(problem, [row for row in ways if row["role"] == "developer"], here)


def _searched(problem: Problem, ways: list[Row], here: DeploymentFacts) -> list[Row]:
    """The candidates of the search from some strategies."""
    found = searched(problem, ways, searches.load("offline"), here, time.monotonic, lambda _text: None)
    return dict(found).get("candidates", [])


def compared(folder: Path, here: DeploymentFacts) -> list[tuple[str, float, float]]:
    """(Case and direction, cheapest of the run's candidates, cheapest from the developer alone) in us."""
    ways, cases = read(KNOWN_WAYS, folder / "known_ways.parquet"), read(CASES, folder / "cases.parquet")
    known = pl.concat([read(CANDIDATES, path) for path in folder.glob("search/*/candidates.parquet")])
    priced = []
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            at = (pl.col("case") == case.id) & (pl.col("direction") == problem.direction.value)
            if found := _from_developer(problem, list(ways.filter(at).iter_rows(named=True)), here):
                mine = pl.DataFrame(found, infer_schema_length=None)
                where = f"{case.id} {problem.direction.value}"
                priced.append((where, cheapest(known.filter(at)), cheapest(mine)))
    return priced


def cheapest(candidates: pl.DataFrame) -> float:
    """The lowest price of a proven Program that loses no bits, in us."""
    proven = candidates.filter((pl.col("equivalence") == "pass") & (pl.col("numerics") != "lossy"))
    return float(proven["predicted_us"].min())  # type: ignore[arg-type]
