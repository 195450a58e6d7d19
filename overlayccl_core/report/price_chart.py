"""Price of the chosen Program by term of the cost model, beside the runner-up's."""

from typing import Any

import altair as alt

from overlayccl_core.program.case import problem_of
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Figure,
    TableBlock,
    Text,
    missing,
    ms,
    only,
    price,
    with_sources,
)
from overlayccl_core.report.charts import Ink, by_look, figure, named
from overlayccl_core.report.terms import NAMES, Explanation, Priced, PriceSide, explained_choices, term_names
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.prices import TERMS_US

FIGURES = 6  # Cases with a figure, trained ones first; the table has all
# of the terms, in their order
INKS = (Ink.GREY, Ink.BLUE, Ink.SKY, Ink.YELLOW, Ink.ORANGE, Ink.GREEN, Ink.PURPLE)
READING = (
    "The model's price of one pass (all exchanges of a Case once) is a sum of terms. "
    f"{'; '.join(f'{NAMES[column]}: {of}' for column, of in TERMS_US.items())}. "
    "Diamond: the time of a pass in the bench, by which was chosen."
)


def blocks(tree: Tree) -> list[Block]:
    """Return a figure for the first Cases and a table for all."""
    with tree.reading() as read:
        explained = explained_choices(tree)
    if explained is None:
        return [missing("Nothing was chosen in this run, so there is no price to take apart.", "")]
    explained = [e for e in explained if e.chosen.terms]
    if not explained:
        return [missing("Nothing that was chosen has a price.", "")]
    figures = [
        block
        for e in explained[:FIGURES]
        for block in only(f"problems/{problem_of(e.case)}", with_sources(read, [_figure(e)]))
    ]
    return [Text(text=READING), *figures, *with_sources(read, [_table(explained)])]


def ink_of(term: str) -> Ink:
    """Return the colour of a term, by its place among all terms."""
    return INKS[list(NAMES.values()).index(term) % len(INKS)]


def _compared(explanation: Explanation) -> list[tuple[PriceSide, Priced]]:
    """Leave out developer's Program: it is often dearer by far, and stands in the table alone."""
    return [(part, one) for part, one in explanation.parts if part is not PriceSide.DEVELOPER and one.terms]


def _figure(explanation: Explanation) -> Figure:
    compared = _compared(explanation)
    rows = [
        {"part": part.value, "term": term, "n": n, "ms": us / 1e3, "text": f"{part.value}, {term}: {ms(us)}"}
        for part, one in compared
        for n, (term, us) in enumerate(one.terms.items())
        if us > 0
    ]
    measured = [
        {
            "part": part.value,
            "ms": one.measured_us / 1e3,
            "text": f"{part.value}, measured: {ms(one.measured_us)}",
        }
        for part, one in compared
        if one.measured_us is not None
    ]
    terms = [name for name in term_names(one for _, one in compared) if name in {row["term"] for row in rows}]

    def build(width: int) -> Any:
        y = alt.Y("part:N", title=None, sort=[part.value for part in PriceSide])
        x = alt.X("ms:Q", title="time of one pass, ms", stack="zero")
        color = by_look(alt.Color, "term", {term: ink_of(term).value for term in terms}, sort=terms)
        bars = (
            alt.Chart(named("rows"))
            .mark_bar(height=20)
            .encode(x=x, y=y, color=color, order="n:Q", description="text:N")
        )
        marks = (
            alt.Chart(named("measured"))
            .mark_point(shape="diamond", size=90, filled=False, strokeWidth=2, color=Ink.TEXT.value)
            .encode(x="ms:Q", y=y, description="text:N")
        )
        return alt.layer(bars, marks).properties(height=alt.Step(30))

    second = f"; runner-up {explanation.runner_up.name}" if explanation.runner_up is not None else ""
    return figure(
        f"{explanation.case}, {explanation.direction}: chosen {explanation.chosen.name}{second}",
        explanation.reason,
        build,
        {"rows": rows, "measured": measured},
    )


def _table(explained: list[Explanation]) -> TableBlock:
    terms = term_names(one for e in explained for _, one in e.parts)
    rows = [
        (
            f"{e.case}, {e.direction}",
            f"{part.value}: {one.name}",
            price(one.predicted_us, one.low_us, one.high_us),
            *(ms(one.terms[term]) if term in one.terms else NOTHING for term in terms),
            ms(one.measured_us),
        )
        for e in explained
        for part, one in e.parts
    ]
    return TableBlock(
        title="Price by term of all that was chosen, its runner-up and developer's",
        headers=("Case", "candidate", "price (8 of 10 lie in the range)", *terms, "in the bench"),
        rows=tuple(rows),
        numeric=frozenset(range(2, len(terms) + 4)),
        folded=True,
    )
