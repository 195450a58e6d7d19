"""Ablations of the cost model: features without a term, or without tiers."""

import re
from collections.abc import Iterable
from dataclasses import replace

from overlayccl_core.costmodel.features import Feature, Features, Term

NOTHING = "nothing"
TIERS = "tiers"
_REACH = re.compile(r"\.(node|network)(\d*)\.")  # of a column, such as all_reduce.network4.alone.count


def parts_of(columns: Iterable[Feature]) -> tuple[str, ...]:
    """Return what can be left out where Programs have these columns: nothing, each term, the tiers."""
    known = set(columns)
    terms = [term.value for term in Term if any(c.term is term for c in known)]
    return (NOTHING, *terms, *([TIERS] if any(".network" in c.name for c in known) else []))


def without(counted: Features, part: str) -> Features:
    """Return features without a part.

    Without amortization, collectives started while others are outstanding cost as much as alone. Without tiers, a
    call costs the same within a node and across nodes, and there is no network card.
    """
    kept: dict[Feature, float] = {}
    for column, amount in counted.items():
        if (renamed := _renamed(column, part)) is not None:
            kept[renamed] = kept.get(renamed, 0.0) + amount
    return kept


def _renamed(column: Feature, part: str) -> Feature | None:
    """The column that it counts in; None: it is left out."""
    if part == TIERS:
        return (
            None if column.term is Term.NETWORK else replace(column, name=_REACH.sub(r".any\2.", column.name))
        )
    if column.term != part:
        return column
    if column.term is Term.AMORTIZATION and ".together." in column.name:
        return replace(column, name=column.name.replace(".together.", ".alone."), term=Term.COLLECTIVES)
    return None
