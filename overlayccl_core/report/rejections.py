"""Rejections and their reasons: proposals of searches, verdicts other than pass, strategies without a Program."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from operator import itemgetter
from typing import Any

import altair as alt
import polars as pl

from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.report.blocks import NOTHING, Block, Figure, TableBlock, Text, count, missing, table_of
from overlayccl_core.report.charts import Ink, by_look, figure, named
from overlayccl_core.report.sentences import place_text
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.search.proposal import ProposalOutcome
from overlayccl_core.tables.choice import VERDICTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS, WayStatus
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES

OUTCOMES = {
    ProposalOutcome.PROGRAM: "a new Program",
    ProposalOutcome.DUPLICATE: "known already",
    ProposalOutcome.DOES_NOT_APPLY: "does not apply",
    ProposalOutcome.REJECTED: "not a Program",
    ProposalOutcome.NOT_PROVEN: "not shown to be right",
    ProposalOutcome.ILLEGAL: "waits for itself or breaks a rule",
    ProposalOutcome.INFEASIBLE: "priced, never to be chosen",
}
ENDS = {  # interrupted searches first
    "proposer_failed": "its proposer failed",
    "programs": "cut by the guard `programs`",
    "rounds": "cut by the guard `rounds`",
    "seconds": "cut by the guard `seconds`",
    "no_base": "nothing to search from",
    "no_new_elite": "by itself: no new elite",
    "no_exchange": "nothing to search",
    "none_failed": "nothing to mend",
}
CUT = ("programs", "rounds", "seconds")
NOT_BY_ITSELF = {
    "no_exchange": "had nothing to exchange",
    "none_failed": "had nothing to mend",
    "no_base": "had no right strategy to begin with",
    "proposer_failed": "ended when the proposer failed",
}
EXAMPLES = 40
SEARCHES = 80


def blocks(tree: Tree) -> list[Block]:
    """Return proposals by outcome, ends of searches, verdicts, and strategies that do not apply."""
    return [*_searches(tree), *_verdicts(tree), *_without_program(tree)]


@sourced
def _searches(tree: Tree) -> Iterator[Block]:
    sketches = tree.of_searches(SKETCHES)
    if sketches is None:
        how = "Everything below is about the strategies of the library."
        yield missing("No search has run in this tree.", how)
        return
    made = sketches.filter(pl.col("outcome") == ProposalOutcome.PROGRAM).height
    cases = sketches.select("case", "direction").unique().height
    text = (
        f"The searches made {count(sketches.height, 'proposal')} for "
        f"{count(cases, 'Case and direction', 'Cases and directions')}; "
        f"{made} became Programs that nobody had proposed before. A proposal is rewrite rules at "
        "a Program, or a strategy that was written for it."
    )
    yield from (Text(text=text), _outcomes_figure(tree, sketches), _rules_table(sketches))
    yield from _ends(tree)


def _outcomes_figure(tree: Tree, sketches: pl.DataFrame) -> Figure:
    counted = (
        sketches.with_columns(pl.col("case").str.split("/").list.first().alias("problem"))
        .group_by("problem", "outcome")
        .len()
        .sort("problem", "outcome")
    )
    rows = [
        {
            "problem": row["problem"],
            "outcome": OUTCOMES[row["outcome"]],
            "n": row["len"],
            "text": f"{row['problem']}: {row['len']} proposals: {OUTCOMES[row['outcome']]}",
        }
        for row in counted.iter_rows(named=True)
    ]
    inks = cycle((Ink.BLUE, Ink.ORANGE, Ink.GREEN, Ink.PURPLE, Ink.SKY, Ink.YELLOW))
    look = {
        problem: ink.value
        for problem, ink in zip(sorted({row["problem"] for row in rows}), inks, strict=False)
    }

    def build(width: int) -> Any:
        return (
            alt.Chart(named("rows"))
            .mark_bar(height=18)
            .encode(
                y=alt.Y("outcome:N", title=None, sort=list(OUTCOMES.values()), axis=alt.Axis(labelLimit=170)),
                x=alt.X("n:Q", title="proposals"),
                color=by_look(alt.Color, "problem", look),
                description="text:N",
            )
            .properties(height=alt.Step(26))
        )

    return figure(
        f"{tree.name}: what became of the searches' proposals",
        "Counts of proposals by outcome; colours are the problems.",
        build,
        {"rows": rows},
    )


def _rules_table(sketches: pl.DataFrame) -> TableBlock:
    counts: dict[str, Counter[str]] = {}
    for row in sketches.iter_rows(named=True):
        rule = json.loads(row["step"])[0] if row["step"] else f"({row['origin']})"
        counts.setdefault(rule, Counter())[row["outcome"]] += 1
    shown = [name for name in OUTCOMES if any(c[name] for c in counts.values())]
    return TableBlock(
        title="Proposals by rewrite rule",
        headers=("rule", "proposals", *(OUTCOMES[name] for name in shown)),
        rows=tuple(
            (rule, str(c.total()), *(str(c[name]) for name in shown))
            for rule, c in sorted(counts.items(), key=lambda item: -item[1].total())
        ),
        numeric=frozenset(range(1, len(shown) + 2)),
        folded=True,
    )


@sourced
def _ends(tree: Tree) -> list[Block]:
    """Show the end of every search, interrupted ones first."""
    ends = tree.of_searches(SEARCH_ENDS)
    if ends is None:
        return [missing("Why the searches ended was not recorded.", "Run snakemake again to make the table.")]
    ranks = {why: rank for rank, why in enumerate(ENDS)}
    ordered = ends.sort(pl.col("why").replace_strict(ranks, return_dtype=pl.Int64), maintain_order=True)
    table = table_of(
        f"Why the searches ended, in their own words{_first(SEARCHES, ends)}",
        ordered.head(SEARCHES).iter_rows(named=True),
        {
            "Case and direction": place_text,
            "search": itemgetter("search"),
            "ended": lambda row: ENDS[row["why"]],
            "proposals": lambda row: str(row["proposals"]),
            "said": itemgetter("message"),
        },
        numeric=frozenset({3}),
    )
    return [_ends_text(ends), table]


def _first(most: int, rows: pl.DataFrame) -> str:
    return f" (the first {most} of {rows.height})" if rows.height > most else ""


def _ends_text(ends: pl.DataFrame) -> Text:
    counts = Counter(ends["why"])
    cut = {why: counts[why] for why in CUT if counts[why]}
    number = sum(cut.values())
    said = f"Of {count(ends.height, 'search', 'searches')}, {counts['no_new_elite']} ended by themselves"
    said += "".join(f", {counts[why]} {what}" for why, what in NOT_BY_ITSELF.items() if counts[why])
    if not cut:
        warns = counts["no_base"] or counts["proposer_failed"]
        return Text(text=f"{said}; no guard cut one short.", tone="warning" if warns else "good")
    guards = ", ".join(f"{n} by `{why}`" for why, n in cut.items())
    return Text(
        text=f"{said}, {count(number, 'was', 'were')} cut short ({guards}): with a higher guard in config/searches "
        "a search may find cheaper Programs.",
        tone="warning",
    )


@sourced
def _verdicts(tree: Tree) -> list[Block]:
    verdicts = tree.of_problems(VERDICTS)
    if verdicts is None:
        return [missing("No gate has said anything yet: nothing was chosen in this run.", "")]
    failed = verdicts.filter(pl.col("outcome").is_in((Outcome.FAIL, Outcome.UNPROVEN)))
    passed = verdicts.filter(pl.col("outcome") == Outcome.PASS).height
    parts: list[Block] = [
        Text(
            text=(
                f"Gates gave {count(verdicts.height, 'verdict')}: {passed} passed, {failed.height} did not, "
                f"{verdicts.height - passed - failed.height} had no question to answer. Gates in order: "
                "legality, equivalence (a proof against the problem's reference), bench (a time that physics "
                "allows), training (same matrix products, gradients and losses), choice (faster beyond noise than "
                "all that is plainer)."
            )
        )
    ]
    if failed.is_empty():
        parts.append(Text(text="No candidate failed a gate.", tone="good"))
        return parts
    table = table_of(
        f"Verdicts that are no pass{_first(EXAMPLES, failed)}",
        failed.head(EXAMPLES).iter_rows(named=True),
        {
            "gate": itemgetter("gate"),
            "reason": lambda row: row["reason"].replace("_", " "),
            "candidate": itemgetter("candidate"),
            "where": place_text,
            "trained in": lambda row: row["model"] or NOTHING,
            "message": itemgetter("message"),
        },
    )
    return [*parts, table]


@sourced
def _without_program(tree: Tree) -> list[Block]:
    ways = tree.of_problems(KNOWN_WAYS)
    if ways is None:
        return []
    out = ways.filter(
        (pl.col("status") != WayStatus.PROGRAM) | (pl.col("equivalence").fill_null("") != Outcome.PASS)
    )
    if out.is_empty():
        return [Text(text="Every strategy of the library applies at every Case and is proven.", tone="good")]
    grouped = (
        out.group_by("strategy", "status", "reason", "message", maintain_order=True)
        .agg(pl.col("case").n_unique().alias("cases"), pl.col("case").first())
        .sort("strategy")
    )
    return [
        table_of(
            "Strategies of the library that are out at some Case",
            grouped.iter_rows(named=True),
            {
                "strategy": itemgetter("strategy"),
                "why": lambda row: row["message"] or row["reason"].replace("_", " "),
                "Cases": lambda row: str(row["cases"]),
                "for example at": itemgetter("case"),
            },
            numeric=frozenset({2}),
            folded=True,
        )
    ]
