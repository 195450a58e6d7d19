"""Ablations of the cost model: features without a term or tiers; or with another deployment's theta."""

import re
from collections.abc import Collection, Iterable
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


def at_theta_of(counted: Features, columns: Collection[Feature]) -> Features:
    """Return features as a theta of another deployment can price them. columns: what that theta has values for.

    A call that its probes did not reach counts as the same call on the other tier; a network card that is not
    there costs nothing.
    """
    kept: dict[Feature, float] = {}
    for column, amount in counted.items():
        if column not in columns:
            if column.term is Term.NETWORK:
                continue
            column = replace(column, name=_REACH.sub(_other_tier, column.name))
        kept[column] = kept.get(column, 0.0) + amount
    return kept


def _other_tier(found: re.Match[str]) -> str:
    tier = "network" if found[1] == "node" else "node"
    return f".{tier}{found[2]}."


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
