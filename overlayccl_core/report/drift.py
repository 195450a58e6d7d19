"""The last lines of the target `drift`, also printed by `overlayccl drift`."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from overlayccl_core.costmodel.drift import LOCAL, MIXED
from overlayccl_core.evidence.drift import KindDrift, holds, kinds_drifted
from overlayccl_core.report.blocks import columns_ratio
from overlayccl_core.tables.remake import remake

NETWORK = "network"
DISTURBED = "Disturbed: others took CPU time while probes were timed. Ask again on a quiet machine."


def lines(drift: pl.DataFrame, choices: pl.DataFrame, tree: Path) -> Iterator[str]:
    """Yield whether theta holds, what moved, and which choices would change. The tables are those of the target."""
    kinds = kinds_drifted(drift)
    still = "still holds" if holds(kinds) else "no longer holds"
    yield (
        f"theta {still}: {drift['within'].sum()} of {drift.height} probes inside their intervals "
        f"({drift['was_within'].sum()} when it was fitted)"
    )
    yield from (_moved(one) for one in kinds if one.beyond)
    if not holds(kinds):
        yield f"probe again, and choose anew: {remake(tree / 'probes.parquet')}, then the whole run"
    changed = choices.filter("changes")
    yield f"{changed.height or 'no'} of {choices.height} choices would change" + ":" * bool(changed.height)
    for row in changed.iter_rows(named=True):
        yield (
            f"  {row['case']} {row['direction']}: {row['now_cheapest']} in place of {row['cheapest']}, "
            f"{columns_ratio(row, 'gain')} times as fast by the scaled prices"
        )
    if drift["disturbed"].any():
        yield DISTURBED


def _moved(one: KindDrift) -> str:
    factor, word = (one.factor, "slower") if one.factor > 1 else (1 / one.factor, "faster")
    return (
        f"{kind_text(one.kind)}: {factor:.1f} times {word} than when theta was fitted ({one.probes} probes)"
    )


def kind_text(kind: str) -> str:
    """Return `all_reduce across nodes, groups of 4` for `all_reduce.network4`."""
    if kind in (LOCAL, MIXED):
        return {LOCAL: "local work", MIXED: "mixed Programs"}[kind]
    called, _, reach = kind.partition(".")
    size = reach.removeprefix(NETWORK).removeprefix("node")
    where = "across nodes" if reach.startswith(NETWORK) else "within a node"
    return f"{called} {where}" + f", groups of {size}" * bool(size)
