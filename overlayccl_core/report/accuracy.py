"""Whether the prices of each Problem are as right as asked: a table of the page, a line at the end of a run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from overlayccl_core.costmodel.targets import (
    ERROR_OVER_REPEAT,
    LARGEST_ERROR,
    LARGEST_REGRET,
    LARGEST_REPEAT,
    LEAST_ORDER,
    PriceVerdict,
    PriceWord,
    judged,
)
from overlayccl_core.report.blocks import Block, Text, count, percent, table_of
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.fidelity import FIDELITY

ASKED = (
    "Asked of the prices of each Problem, whose candidates the fit has never seen: a median error of at most "
    f"{ERROR_OVER_REPEAT:g} times the repeat error and {LARGEST_ERROR:.0%}; {LEAST_ORDER:.0%} of the pairs further "
    "apart than noise in the right order, or as many as even and odd rounds agree on; a median regret of at most "
    f"{LARGEST_REGRET:.0%}. Undecided: the repeat error is above {LARGEST_REPEAT:.0%}."
)
Row = Mapping[str, Any]


def verdicts(tree: Tree) -> list[tuple[Row, PriceVerdict]]:
    """Return the row of `fidelity` of every Problem as a whole, with its verdict."""
    rows = tree.of_problems(FIDELITY)
    if rows is None:
        return []
    return [(row, judged(row)) for row in rows.filter(pl.col("case").is_null()).iter_rows(named=True)]


@sourced
def blocks(tree: Tree) -> Iterator[Block]:
    """Yield what is asked, and a table with a row for each Problem."""
    if found := verdicts(tree):
        yield Text(text=ASKED)
        yield table_of(
            "Whether the prices of each Problem are as right as asked",
            found,
            {
                "Problem": lambda one: one[0]["problem"],
                "Programs": lambda one: str(one[0]["n"]),
                "median error": lambda one: percent(one[0]["median_rel_error"]),
                "repeat error": lambda one: percent(one[0]["repeat_rel_error"]),
                "pairs in the right order": lambda one: _pairs(one[0], "pair_accuracy"),
                "even with odd rounds": lambda one: _pairs(one[0], "repeat_pair_accuracy"),
                "median regret": lambda one: percent(one[0]["top1_regret"]),
                "verdict": lambda one: str(one[1]),
            },
            numeric=frozenset(range(1, 7)),
        )


def _pairs(row: Row, column: str) -> str:
    return f"{percent(row[column])} of {row['pairs']}" if row["pairs"] else "no pair apart"


def lines(tree: Tree) -> list[str]:
    """Return one line on the prices of all Problems, then what is asked; none if none was priced and measured."""
    found = verdicts(tree)
    if not found:
        return []
    met = _names(found, PriceWord.MET)
    said = [f"Prices are as right as asked for {len(met)} of {count(len(found), 'Problem')}"]
    if short := [f"{row['problem']} ({', '.join(one.short)})" for row, one in found if one.short]:
        said.append(f"they fall short for {', '.join(short)}")
    if undecided := _names(found, PriceWord.UNDECIDED):
        said.append(f"undecided, as a repeat is off by over {LARGEST_REPEAT:.0%}: {', '.join(undecided)}")
    return [f"{'; '.join(said)}.", ASKED]


def _names(found: Iterable[tuple[Row, PriceVerdict]], word: PriceWord) -> list[str]:
    return [row["problem"] for row, one in found if one.word is word]
