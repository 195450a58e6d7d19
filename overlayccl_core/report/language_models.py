"""Questions to language models, their sketches, and the cost."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import polars as pl

from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    TableBlock,
    Text,
    count,
    duration,
    ms,
    scripted,
    table_of,
    with_sources,
)
from overlayccl_core.report.rejections import OUTCOMES
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.search.proposal import ProposalOutcome
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.trials import TRIALS

READING = (
    "A question is asked once: an answer that was recorded is given again and costs nothing. US dollars are by the "
    "dated table of prices; calls that were cut off are counted by the ceiling, not here. Sketches are counted "
    "where a model was asked; at other Cases, and backward, the same are tried. Right: proven equal to the "
    "reference. Polished: what rules made of a sketch is cheaper, by its price, than the cheapest sketch."
)
MOST_SKETCHES = 60
LONGEST = 300  # characters of a rationale

Key = tuple[str, str, str]  # Problem, search, style


def blocks(tree: Tree) -> list[Block]:
    """Return totals by Problem and style, and the outcome of every sketch; none if no model was asked."""
    with tree.reading() as asked:
        calls, sketches = tree.of_searches(CALLS), tree.of_searches(SKETCHES)
    if calls is None or not calls.height or sketches is None:
        return []
    sketched = sketches.filter(pl.col("origin") == "sketch")
    parts: list[Block] = [Text(text=READING)]
    parts += with_sources(asked, scripted(calls["made_by"]))
    with tree.reading() as ends:
        totals = _totals(tree, calls, sketched)
    parts += [*with_sources(asked | ends, [totals]), *_trials(tree)]
    if sketched.height:
        with tree.reading() as prices:
            became = _sketches(tree, sketched)
        parts += with_sources(asked | prices, [became])
    return parts


def _totals(tree: Tree, calls: pl.DataFrame, sketched: pl.DataFrame) -> TableBlock:
    ends = tree.of_searches(SEARCH_ENDS)
    keyed = calls.with_columns(pl.col("case").str.split("/").list.first().alias("problem"))
    groups = keyed.group_by("problem", "search", "style", maintain_order=True)
    return TableBlock(
        title="What was asked, by Problem and style",
        headers=(
            *("Problem: search, style", "who answered", "questions", "of them recorded", "without an answer"),
            *("tokens said", "of them cached", "answered", "USD", "asked for"),
            *("sketches", "right", "known already", "polished"),
        ),
        rows=tuple(_total(tuple(map(str, key)), mine, sketched, ends) for key, mine in groups),
        numeric=frozenset(range(2, 13)),
    )


def _total(
    key: tuple[str, ...], calls: pl.DataFrame, sketched: pl.DataFrame, ends: pl.DataFrame | None
) -> tuple[str, ...]:
    problem, search, style = key
    places = calls.select("case", "direction", "search").unique()
    mine = sketched.join(places, on=["case", "direction", "search"], how="semi")
    outcomes = mine["outcome"].to_list()
    answered = calls.filter(pl.col("made_by").is_not_null())
    who = dict.fromkeys(
        f"{m or 'a program'} ({by})" for m, by in answered.select("model", "made_by").iter_rows()
    )
    said = _sum(calls, "input_tokens", "cache_read_tokens", "cache_write_tokens")
    right = sum(outcome in (ProposalOutcome.PROGRAM, ProposalOutcome.DUPLICATE) for outcome in outcomes)
    return (
        f"{problem}: {search}, {style}",
        ", ".join(who) or NOTHING,
        str(calls.height),
        str(int(calls["recorded"].sum())),
        str(calls["made_by"].null_count()),
        said,
        _sum(calls, "cache_read_tokens"),
        _sum(calls, "output_tokens"),
        NOTHING if calls["usd"].null_count() == calls.height else f"{calls['usd'].sum():.4f}",
        NOTHING if calls["seconds"].null_count() == calls.height else duration(float(calls["seconds"].sum())),
        str(len(outcomes)),
        str(right),
        str(outcomes.count(ProposalOutcome.DUPLICATE.value)),
        _polished(places, ends),
    )


def _sum(calls: pl.DataFrame, *columns: str) -> str:
    known = [int(calls[c].sum()) for c in columns if calls[c].null_count() < calls.height]
    return f"{sum(known):,}" if known else NOTHING


def _polished(places: pl.DataFrame, ends: pl.DataFrame | None) -> str:
    if ends is None:
        return NOTHING
    mine = ends.join(places, on=["case", "direction", "search"], how="semi")["polished"].drop_nulls()
    return NOTHING if not mine.len() else "yes" if mine.any() else "no"


@sourced
def _trials(tree: Tree) -> Iterator[Block]:
    """Count the sketches run on the ranks, and show the failures."""
    trials = tree.of_searches(TRIALS)
    if trials is None or not trials.height:
        return
    failed = trials.filter(pl.col("status") != JobStatus.RIGHT)
    said = f"Run once on the ranks, at each Case and direction: {count(trials.height, 'sketch', 'sketches')}"
    if not failed.height:
        yield Text(text=f"{said}; all ran, with right values.", tone="good")
        return
    yield Text(text=f"{said}; {failed.height} failed, and were asked about again.", tone="warning")
    yield table_of(
        "Sketches that failed on the ranks",
        failed.iter_rows(named=True),
        {
            "Case and direction": lambda row: f"{row['case']} {row['direction']}",
            "search": itemgetter("search"),
            "sketch": itemgetter("candidate"),
            "how": itemgetter("status"),
            "what was said": lambda row: row["message"][:LONGEST],
        },
    )


def _sketches(tree: Tree, sketched: pl.DataFrame) -> TableBlock:
    prices = _prices(tree)

    def us(row: dict[str, Any]) -> float | None:
        return prices.get((row["case"], row["direction"], row["value_digest"] or ""))

    first = f", the first {MOST_SKETCHES} of {sketched.height}" if sketched.height > MOST_SKETCHES else ""
    return table_of(
        f"What became of each sketch{first}",
        sketched.head(MOST_SKETCHES).iter_rows(named=True),
        {
            "Case and direction": lambda row: f"{row['case']} {row['direction']}",
            "strategy": lambda row: row["function"] or NOTHING,
            "asked to": _aim,
            "outcome": lambda row: (
                OUTCOMES[ProposalOutcome(row["outcome"])]
                + (f": {row['message'][:LONGEST]}" if row["message"] else "")
            ),
            "predicted": lambda row: ms(us(row)),
            "why, in its author's words": lambda row: row["rationale"][:LONGEST],
        },
        numeric=frozenset({4}),
        folded=True,
    )


def _aim(row: dict[str, Any]) -> str:
    """Format a question's aim: `refine: collectives of 1.50 ms, now 1.20 ms`."""
    said = row["purpose"] or NOTHING
    return (
        said
        if row["aim"] is None
        else f"{said}: {row['aim']} of {ms(row['aim_us'])}, now {ms(row['aimed_us'])}"
    )


def _prices(tree: Tree) -> dict[tuple[str, str, str], float]:
    """Return (Case, direction, value_digest) -> us of the cheapest candidate of that value."""
    candidates = tree.of_searches(CANDIDATES)
    if candidates is None:
        return {}
    priced = candidates.filter(pl.col("predicted_us").is_not_null()).sort("predicted_us", descending=True)
    rows = priced.select("case", "direction", "value_digest", "predicted_us").iter_rows()
    return {(case, direction, value): us for case, direction, value, us in rows}
