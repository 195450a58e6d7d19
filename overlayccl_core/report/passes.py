"""The bench of every candidate, at Cases without a model: only passes are timed there."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from overlayccl_core.measuring.measurements import Measurement
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Place
from overlayccl_core.report.blocks import NOTHING, Block, TableBlock, Text, only, spread, times
from overlayccl_core.report.blocks import price as price_text
from overlayccl_core.report.sentences import place_text
from overlayccl_core.report.terms import Priced, priced, timed
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES

Row = Mapping[str, Any]
_Line = tuple[tuple[str, ...], bool]  # cells, and whether it is the choice


def untrained(tree: Tree) -> tuple[str, ...]:
    """Return the deployed Problems without a model at any Case."""
    if tree.deployed is None:
        return ()
    trained = set(tree.deployed.filter(pl.col("trained_in").is_not_null())["problem"])
    return tuple(p for p in tree.deployed["problem"].unique(maintain_order=True) if p not in trained)


def untrained_text(problems: tuple[str, ...]) -> str:
    """Say who chose, and that their figures are of passes."""
    return (
        f"No model of this run trains {', '.join(problems)}: chosen by the bench alone, in no training step. Only "
        "passes are told, timed alone."
    )


def blocks(tree: Tree) -> list[Block]:
    """Name Problems without a model; for each Problem, tabulate the candidates at Cases without one."""
    return [
        *_alone(tree),
        *(block for p in tree.problems for block in only(f"problems/{p}", _bench(tree, p))),
    ]


@sourced
def _alone(tree: Tree) -> Iterator[Block]:
    if alone := untrained(tree):
        yield Text(text=untrained_text(alone))


@sourced
def _bench(tree: Tree, problem: str) -> Iterator[Block]:
    choice, bench, ways = (
        tree.table(of, f"problems/{problem}/{of.name}") for of in (CHOICE, BENCH, KNOWN_WAYS)
    )
    if choice is None or bench is None or ways is None:
        return
    prices = tree.table(PRICES, f"problems/{problem}/{PRICES.name}")
    known, measured = priced(prices, tree.of_searches(CANDIDATES, problem)), timed(bench)
    lines: list[_Line] = []
    for row in choice.filter(pl.col("trained_in").is_null()).iter_rows(named=True):
        place = (row["case"], row["direction"])
        lines += _lines(row, _named(ways, place), measured.get(place, {}), known)
    if lines:
        yield TableBlock(
            title=f"{problem}: the bench of all candidates where no model trains a Case, by which was chosen",
            headers=("Case", "candidate", "predicted", "a pass, measured", "over developer"),
            rows=tuple(cells for cells, _ in lines),
            numeric=frozenset({2, 3, 4}),
            strong=frozenset(number for number, (_, chosen) in enumerate(lines) if chosen),
            folded=True,
        )


def _lines(
    row: Row,
    ways: Mapping[str, tuple[str, bool]],
    here: Mapping[str, tuple[str, Measurement]],
    known: Mapping[tuple[str, str, str], Priced],
) -> Iterator[_Line]:
    """Yield the candidates of a row of `choice`, the fastest first. ways: program -> (names, if developer's)."""
    developer = next((one for program, (_, one) in here.items() if ways.get(program, ("", False))[1]), None)
    for program, (name, one) in sorted(here.items(), key=lambda item: item[1][1].estimate.value):
        chosen, price = program == row["program"], known.get((row["case"], row["direction"], program))
        estimate = one.estimate
        low, high = estimate.interval()
        yield (
            (
                place_text(row),
                ways.get(program, (name, False))[0] + (" (chosen)" if chosen else ""),
                NOTHING if price is None else price_text(price.predicted_us, price.low_us, price.high_us),
                spread(Ratio(value=estimate.value, low=low, high=high)),
                NOTHING if developer is None or one is developer else times(one.speedup_over(developer)),
            ),
            chosen,
        )


def _named(ways: pl.DataFrame, place: Place) -> dict[str, tuple[str, bool]]:
    """Return program -> (names of all its strategies, whether one of them is the developer's)."""
    names: dict[str, list[str]] = {}
    developers = set()
    for row in ways.filter(pl.col("program").is_not_null()).iter_rows(named=True):
        if (row["case"], row["direction"]) == place:
            names.setdefault(row["program"], []).append(row["strategy"])
            if row["role"] == Role.DEVELOPER:
                developers.add(row["program"])
    return {program: (" = ".join(listed), program in developers) for program, listed in names.items()}
