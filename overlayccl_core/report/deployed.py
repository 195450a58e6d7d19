"""Deployed candidates, their modules' stamps, and the conditions of all measurements."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import polars as pl

from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.measuring import statistics
from overlayccl_core.measuring.arms import arm_label, stands_as, use_text
from overlayccl_core.report.blocks import (
    NOTHING,
    Block,
    Source,
    TableBlock,
    Text,
    columns_ratio,
    count,
    missing,
    ms,
    percent,
    table_of,
    worded,
)
from overlayccl_core.report.conditions import (
    disturbed,
    emulated,
    fingerprints_of,
    frames,
    launches,
    of_nodes,
    timed,
)
from overlayccl_core.report.sentences import DISTURBED, KNOWN, case_known, case_warnings, place_text
from overlayccl_core.report.shortfalls import shortfalls
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STAMPS

OVERSUBSCRIBED = (
    "There were more ranks than cores here. Ranks waited for the operating system's scheduler far more than for "
    "any wire, and a small collective cost milliseconds that it would not cost on a cluster. Read these figures "
    "as a test that the pipeline finds and proves what its probes promise, not as what a cluster will gain."
)
SHORT = (
    "More ranks than cores: these times contain the operating system's scheduler. They show that the method works "
    "here, not what a cluster will gain."
)
OWN_CORES = "Every rank had a core of its own."
NOT_EMULATED = (
    "Nothing here is emulated: every time is of real processes that ran the library's real collectives, and every "
    "trained step computed real gradients."
)


def blocks(tree: Tree) -> list[Block]:
    """Return choice by Case, files, stamps."""
    return [*_choices(tree), *_files(tree), *_stamps(tree)]


def notes(tree: Tree) -> tuple[Block, ...]:
    """Return the notes beside the first figures."""
    return tuple(
        block for said in (emulated, _oversubscribed, disturbed, of_nodes) for block in _warned(tree, said)
    )


def _oversubscribed(tree: Tree) -> list[str]:
    return [SHORT] if _over(tree) else []


@sourced
def _warned(tree: Tree, said: Callable[[Tree], Sequence[str]]) -> list[Block]:
    return [Text(text=text, tone="warning") for text in said(tree)]


def conditions(tree: Tree) -> list[Block]:
    """Return host, oversubscription, disturbed launches, repeat errors, and shortfalls against the settings."""
    return [*_how(tree), *_warned(tree, shortfalls), *_where(tree), *_made_with(tree)]


@sourced
def _how(tree: Tree) -> Iterator[Block]:
    of_what = emulated(tree)
    told = " ".join(of_what) or f"{_ranks(tree)} {NOT_EMULATED}"
    yield Text(text=told, tone="warning" if of_what or _over(tree) else "plain")
    rows = _measured(tree)
    if rows:
        yield TableBlock(
            title="What was measured, and how well it repeats",
            headers=(
                "measurement",
                "launches",
                "disturbed launches",
                "samples in a launch, fewest to most",
                "repeat error",
                "repeat error between launches",
            ),
            rows=tuple(rows),
            numeric=frozenset(range(1, 6)),
        )


@sourced
def _where(tree: Tree) -> Iterator[Block]:
    if fingerprints := fingerprints_of(tree):
        yield Text(text="Measured on: " + "; ".join(fingerprints))


@sourced
def _made_with(tree: Tree) -> Iterator[Block]:
    if versions := tree.versions(PROBES, "probes"):
        yield Text(text=f"Made with: {versions}")


@sourced
def _choices(tree: Tree) -> list[Block]:
    if tree.choice is None or tree.choice.is_empty():
        return [missing("Nothing was chosen in this run.", f"Choose: {tree.command}")]
    if tree.deployed is None:
        said = "Nothing was timed again after the choice in this run."
        return [missing(said, f"Run: {tree.command}")]
    recipes = {place_text(row): json.loads(row["recipe"]) for row in tree.choice.iter_rows(named=True)}
    rows = list(tree.deployed.sort("case", "direction", descending=[False, True]).iter_rows(named=True))
    warned = [warning for row in rows for warning in case_warnings(row)]
    warned += [DISTURBED] if tree.deployed["disturbed"].any() else []
    return [
        Text(text=_counted(rows)),
        *([Text(text=" ".join(warned), tone="warning")] if warned else []),
        table_of(
            "What was chosen at each Case, and the time of a pass",
            rows,
            {
                "Case": lambda row: (
                    place_text(row)
                    + (f"; counts in the step of {row['trained_in']}" if row["trained_in"] else "")
                ),
                "candidate": _candidate,
                "how it is made; numerics": lambda row: "; ".join(
                    [_recipe(recipes[place_text(row)]), row["numerics"]]
                    if place_text(row) in recipes
                    else [row["numerics"]]
                ),
                "a pass": lambda row: ms(row["measured_us"]) + (", disturbed" if row["disturbed"] else ""),
                "over the best known way": _over_known,
                "use": lambda row: use_text(row["instead"]) if row["instead"] else "deployed",
            },
            numeric=frozenset({3}),
        ),
        Text(text=READING),
        table_of(
            "Why each was chosen, by the launches that chose",
            rows,
            {"Case": place_text, "candidate": itemgetter("candidate"), "why": itemgetter("reason")},
            folded=True,
        ),
    ]


def _candidate(row: Mapping[str, Any]) -> str:
    arm = stands_as(row["arm"], row["problem"])
    return f"{row['candidate']}{'' if is_found(row['candidate']) else f' (= {arm_label(arm)})'}"


def _over_known(row: Mapping[str, Any]) -> str:
    other = "" if row["best_other"] is None else f" ({arm_label(row['best_other'])})"
    return f"{KNOWN if case_known(row) else worded(columns_ratio(row, 'gain'))}{other}"


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    by_hand = sum(not is_found(row["candidate"]) for row in rows)
    said = f"{count(len(rows), 'Case and direction', 'Cases and directions')}. "
    if by_hand:
        said += f"In {by_hand} of them the search added nothing: what people write was chosen. "
    gains = (columns_ratio(row, "gain") for row in rows if not case_known(row))
    faster = sum(1 for gain in gains if gain and gain.beyond_noise)
    alone = sum(row["measured_us"] is not None for row in rows)
    return said + (
        f"{count(alone, 'was', 'were')} timed alone; in {faster} a pass of what a search found is faster beyond "
        "noise than with any arm that needs no search."
    )


READING = (
    "A pass is all exchanges of the Case once, timed alone in launches that chose nothing: the file that is to be "
    "deployed beside every arm that needs no search. The ratio says how many times as fast what was chosen is, "
    "over the fastest of those arms; one with the same Program is no other. Where what was chosen is such an arm "
    "itself, no search was needed: it was chosen among known ways by measuring. A Case that a model trains is not "
    "timed alone: its step is what counts, and what was chosen by. Numerics: exact passes inputs on or makes the "
    "same sums in the same primitive (last digits can still differ, as the library may add in another order in a "
    "larger buffer); reordered makes the sums in another order; lossy rounds to fewer bits."
)


def _recipe(recipe: dict[str, Any]) -> str:
    """Return a recipe as text: `developer, then merge(all_reduce:world:1, all)`."""
    base = recipe["base"]
    name = base if isinstance(base, str) else f"backward of {_recipe(base['transpose_of'])}"
    steps = [
        f"{rule}({', '.join(part for part in (place, knob) if part)})"
        for rule, place, knob in recipe["steps"]
    ]
    return ", then ".join([name, *steps])


@sourced
def _files(tree: Tree) -> list[Block]:
    files = sorted(
        p
        for p in (tree.path / "deploy").glob("*")
        if p.suffix in (".py", ".json") and p.stem in tree.problems
    )
    if not files:
        return [missing("No module was deployed in this run.", "")]
    tree.has_read(Source("deployed files", DEPLOYED.rule, f"deploy/{p.name}") for p in files)
    meaning = {
        ".py": "the module: needs torch and nothing of OverlayCCL",
        ".json": "its predicted and measured figures",
    }
    return [
        TableBlock(
            title="Files to take away",
            headers=("file", "what it is", "size"),
            rows=tuple((f"deploy/{p.name}", meaning[p.suffix], bytes_text(p.stat().st_size)) for p in files),
            numeric=frozenset({2}),
        )
    ]


@sourced
def _stamps(tree: Tree) -> list[Block]:
    stamps = tree.table(CONFIRMED_STAMPS, "confirmed_stamps")
    if stamps is None or stamps.is_empty():
        return []
    return [
        table_of(
            "Stamps: what the modules themselves say ran in a training step",
            stamps.iter_rows(named=True),
            {
                "model, microbatches": lambda row: f"{row['model']}, {row['microbatches']}",
                "arm": lambda row: arm_label(row["arm"]),
                "timed as": lambda row: "" if row["ran_as"] == row["arm"] else arm_label(row["ran_as"]),
                "site": itemgetter("site"),
                "direction": itemgetter("direction"),
                "candidate": itemgetter("candidate"),
                "digest": lambda row: row["program"][:8],
                "library": lambda row: f"{row['library']} {row['library_version']}",
                "library calls a step": lambda row: str(row["calls"]),
            },
            numeric=frozenset({8}),
            folded=True,
        )
    ]


def _measured(tree: Tree) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, frame in frames(tree).items():
        here, rows_timed = launches(frame), timed(frame)
        column = "steps_us" if "steps_us" in frame.columns else "samples_us"
        lengths = rows_timed[column].list.len().to_list()
        error = statistics.repeat_error(s for s in rows_timed[column].to_list() if len(s) > 1)
        rows.append(
            (
                name,
                str(here.height),
                str(here["disturbed"].sum()),
                f"{min(lengths)} to {max(lengths)}",
                percent(error) if error == error else NOTHING,
                percent(_between_launches(rows_timed, column)),
            )
        )
    return rows


def _between_launches(rows: pl.DataFrame, column: str) -> float | None:
    """Return the repeat error of consecutive launches; None if everything ran in one launch."""
    names = ("model", "microbatches", "arm", "case", "direction", "program")
    keys = [name for name in names if name in rows.columns]
    first, second = [], []
    for _, mine in rows.sort("launch").group_by(keys, maintain_order=True):
        samples = mine[column].to_list()
        first += samples[:-1]
        second += samples[1:]
    return statistics.repeat_error_between(first, second) if first else None


def _over(tree: Tree) -> bool:
    return any(frame["oversubscribed"].any() for frame in frames(tree).values())


def _ranks(tree: Tree) -> str:
    return (
        OVERSUBSCRIBED if _over(tree) else OWN_CORES if frames(tree) else "Nothing was measured in this run."
    )
