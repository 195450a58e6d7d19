"""Arms between the developer's calls and the deployed ones: the two sides of a gain, sets of factors, names.

An arm has the developer's Programs with some of the factors by which the deployed ones differ, at all Cases of a
model at once. One more factor is the count of microbatches: without it an arm is at the developer's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl

from overlayccl_core.measuring.arms import ArmName, arm_label, is_framework
from overlayccl_core.measuring.effects import EVERY_SET, NONE, Factors, drawn_orders, subsets
from overlayccl_core.rewrites.rule import Factor
from overlayccl_core.tables.deployed import Part

MICROBATCHES = "microbatches"
FACTORS = (*map(str, Factor), MICROBATCHES)  # in the order of all texts
MOST_ARMS = 16  # of a model with more than EVERY_SET factors
MOST_ORDERS = 64  # of adding such factors
SEED = 0  # of these orders
Row = dict[str, Any]


SAME_CALLS = "the file in deploy/ makes the developer's calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedParts:
    """The two sides of a model's gain: counts of microbatches, developer's at their fastest one.

    nothing: why there is nothing to split; empty: there is.
    """

    model: str
    developer: int = 0
    deployed: int = 0
    nothing: str = ""


def compared(model: str, splits: pl.DataFrame) -> ComparedParts:
    """Return the sides of a model, from the table `splits`."""
    rows = splits.filter((pl.col("model") == model) & pl.col("step_us").is_not_null())
    timed = list(rows.iter_rows(named=True))
    stands = {row["part"]: row for row in timed}
    deployed = stands.get(Part.INSTEAD, stands.get(Part.DEPLOYED))
    developers = (row for row in timed if row["arm"] == ArmName.DEVELOPER)
    developer = min(developers, key=lambda row: row["step_us"], default=None)
    if deployed is None or developer is None:
        return ComparedParts(
            model=model, nothing="what is deployed was not timed beside the developer's calls"
        )
    if is_framework(deployed["arm"]):
        return ComparedParts(
            model=model, nothing=f"{arm_label(deployed['arm'])} is kept, and no file is deployed"
        )
    counts = {"developer": developer["microbatches"], "deployed": deployed["microbatches"]}
    if (developer["ran_as"], developer["microbatches"]) == (deployed["ran_as"], deployed["microbatches"]):
        return ComparedParts(model=model, **counts, nothing="the developer's own calls are deployed")
    return ComparedParts(model=model, **counts)


def in_order(factors: Iterable[str]) -> tuple[str, ...]:
    """Return factors in the order of all texts."""
    return tuple(sorted(factors, key=FACTORS.index))


def arm_of(factors: Iterable[str]) -> str:
    """Return the name of the arm with these factors, at its count of microbatches."""
    changed = [factor for factor in in_order(factors) if factor != MICROBATCHES]
    return f"with_{'_and_'.join(changed)}" if changed else str(ArmName.DEVELOPER)


def sets_to_time(factors: Sequence[str]) -> Iterator[list[Factors]]:
    """Yield sets of factors to time, in groups that belong together; the first has none and all of them.

    Up to EVERY_SET factors, that is all sets. Of more, each further group has the sets of one order of adding them.
    """
    if len(factors) <= EVERY_SET:
        yield [frozenset(some) for some in subsets(factors)]
        return
    yield [NONE, frozenset(factors) & {MICROBATCHES}, frozenset(factors)]
    for order in islice(drawn_orders(factors, SEED), MOST_ORDERS):
        yield [frozenset(order[:size]) for size in range(len(order) + 1)]


def nearest(site: str, sites: Iterable[str]) -> str:
    """Return the site of the same name, or else the one whose name begins most alike: other M, other sites."""

    def alike(name: str) -> tuple[bool, int]:
        pairs = zip(site, name, strict=False)
        return name == site, next((at for at, (mine, its) in enumerate(pairs) if mine != its), len(name))

    return max(sites, key=alike)
