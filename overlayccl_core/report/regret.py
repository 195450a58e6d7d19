"""The end of the target `redeploy`, on a page and in lines: another tree's choices at the Cases of this one."""

from statistics import median
from typing import Any

import polars as pl

from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import (
    NOTHING,
    TIMES,
    Block,
    PageSection,
    TableBlock,
    Text,
    columns_ratio,
    count,
    page_sources,
    percent,
    table_of,
    with_sources,
)
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.redeploy import REGRET, SOURCE_PRICES, Replayed

Row = dict[str, Any]
LEAD = "Choices made for another deployment, proven, priced and timed on this one."
READING = (
    "Regret: the time of that tree's choice over the time of the choice that was measured here, in paired rounds "
    "of one bench that neither was chosen by; above 1, the choice made elsewhere is slower. No model computes "
    "beside it, so a choice made by training steps may stand here behind a faster one."
)


def lines(tree: str, regret: pl.DataFrame, redeployed: pl.DataFrame, prices: pl.DataFrame) -> list[str]:
    """Return what the tables say, in sentences. tree: this run's own."""
    return [
        *_of_choices(tree, regret, redeployed),
        *(_of_prices(row, tree) for row in prices.iter_rows(named=True)),
    ]


def _of_prices(row: Row, tree: str) -> str:
    whose = "its own theta" if row["tree"] == tree else f"the theta of {row['tree']}"
    return (
        f"{tree} priced by {whose}: {count(row['n'], 'candidate', 'candidates')}, median error "
        f"{percent(row['median_rel_error'])}, {percent(row['pair_accuracy'])} of pairs in the right order; the "
        f"choice by price alone would be {percent(row['mean_regret'])} slower than the best, in the mean."
    )


def _of_choices(tree: str, regret: pl.DataFrame, redeployed: pl.DataFrame) -> list[str]:
    others = redeployed.filter(pl.col("tree") != tree)
    source = others["tree"][0]
    proven = others.filter(outcome=Replayed.PROVEN).height
    said = [
        f"{proven} of {count(others.height, 'choice', 'choices')} of {source} replayed and proven on {tree}."
    ]
    said += [
        f"{row['case']} {row['direction']}: {row['way'] or 'no choice'}: "
        f"{row['outcome'].replace('_', ' ')}: {row['message']}"
        for row in others.iter_rows(named=True)
        if row["outcome"] not in (Replayed.PROVEN, Replayed.NO_CASE)
    ]
    if without := others.filter(outcome=Replayed.NO_CASE).height:
        places = count(without, "Case or direction", "Cases and directions")
        said.append(f"At {places} {source} chose nothing of such sizes.")
    beside = regret.drop_nulls("regret")
    if beside.is_empty():
        return [
            *said,
            f"No regret: {tree} has no choice of its own that was timed beside them (run `all` there).",
        ]
    ratios = [columns_ratio(row, "regret") for row in beside.iter_rows(named=True)]
    different = [ratio for ratio in ratios if ratio is not None]
    head = f"Regret of the choices of {source} on {tree}, over its own, at {len(ratios)} Cases and directions"
    same = f"the same Program at {len(ratios) - len(different)}"
    if not different:
        return [*said, f"{head}: {same}."]
    worst = max(different, key=lambda ratio: ratio.value)
    slower = sum(ratio.beyond_noise for ratio in different)
    faster = sum(ratio.slower for ratio in different)
    middle = median(ratio.value for ratio in different)
    said.append(
        f"{head}: {same}; at the others median {middle:.2f}, most {worst!s}; slower beyond noise at {slower}, "
        f"faster at {faster}."
    )
    return said


def table(regret: pl.DataFrame) -> TableBlock:
    """Return a row for each Case and direction."""
    source = regret["tree"][0] if regret.height else "the other tree"
    return table_of(
        f"Choices of {source} beside those made here",
        regret.iter_rows(named=True),
        {
            "Case": lambda row: f"{row['case']}{' backward' * (row['direction'] == 'backward')}",
            f"chosen on {source}": lambda row: row["way"] or NOTHING,
            "chosen here": lambda row: row["own"] or NOTHING,
            "regret": lambda row: _text(columns_ratio(row, "regret"), row["regret"]),
            f"{TIMES} developer": lambda row: _text(columns_ratio(row, "speedup"), row["speedup"]),
            f"{TIMES} best known way": lambda row: _text(columns_ratio(row, "over_known"), row["over_known"]),
        },
        numeric=frozenset({3, 4, 5}),
    )


def page(tree: str, regret: pl.DataFrame, redeployed: pl.DataFrame, prices: pl.DataFrame) -> str:
    """Return the HTML."""
    blocks: list[Block] = [
        *(Text(text=line) for line in lines(tree, regret, redeployed, prices)),
        Text(text=READING),
        table(regret),
    ]
    section = PageSection(
        anchor="regret",
        title="Redeployed, and the regret",
        blocks=with_sources(page_sources(REGRET, SOURCE_PRICES), blocks),
    )
    about = f"problems {', '.join(regret['problem'].unique().sort())}."
    return page_of(tree, about, LEAD, section)


def _text(ratio: Ratio | None, value: float | None) -> str:
    """Format a ratio; the same Program has none."""
    if ratio is None:
        return NOTHING if value is None else "the same"
    return str(ratio)
