"""Results of several runs as ranges, and the state of the machine in each run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from overlayccl_core.measuring.arms import arm_label, use_text
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import columns_ratio
from overlayccl_core.report.conditions import frames
from overlayccl_core.report.sentences import case_known
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.fidelity import FIDELITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Least and largest value over some runs."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where and how a run was measured."""

    fingerprints: tuple[str, ...]
    disturbed: tuple[str, ...]  # measurements with launches in which others took CPU time
    foreign_cpu_share: float | None  # largest known share of any launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelities:
    """Accuracy of the model at a Case and direction, over the runs with such rows.

    problem: None for held-out Programs. case, direction: None for those, and for all of a Problem.
    """

    problem: str | None
    case: str | None
    direction: str | None
    runs: int
    error: Range
    repeat: Range
    order: Range | None
    regret: Range | None
    beyond_noise: int  # number of runs with a first choice slower than the fastest beyond noise


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGain:
    """Gain of the choice over others, in one run."""

    run: Tree
    over_best: Ratio | None  # over `best_other`, the best that needs no search at the same or less memory
    best_other: str | None
    known: bool  # a known way stands, and measured no slower: no ratio is told
    use: str  # action in place of the choice
    over_developer: Ratio | None = None
    over_fastest: Ratio | None = None  # over the fastest that needs no search at any memory


def range_of(values: Iterable[float | None]) -> Range | None:
    """Return the range of the known values; None without any."""
    known = [value for value in values if value is not None]
    return Range(low=min(known), high=max(known)) if known else None


def state(tree: Tree) -> State:
    """Return the state over all measurements of a run."""
    measured = frames(tree)
    shares = [s for frame in measured.values() for s in frame["foreign_cpu_share"].drop_nulls()]
    return State(
        fingerprints=tuple(sorted({f for frame in measured.values() for f in frame["fingerprint"]})),
        disturbed=tuple(name for name, frame in measured.items() if frame["disturbed"].any()),
        foreign_cpu_share=max(shares, default=None),
    )


def fidelities(trees: Sequence[Tree]) -> list[Fidelities]:
    """Return the fidelities of held-out Programs first, then of every Problem, Case and direction of any run."""
    found = [
        frame
        for tree in trees
        for frame in (tree.table(FIDELITY, "fidelity"), tree.of_problems(FIDELITY))
        if frame is not None
    ]
    if not found:
        return []
    rows = pl.concat(found)
    return [
        _fidelities(place, here)
        for place, here in rows.group_by("problem", "case", "direction", maintain_order=True)
    ]


def _fidelities(place: Iterable[object], rows: pl.DataFrame) -> Fidelities:
    error, repeat = (range_of(rows[name]) for name in ("median_rel_error", "repeat_rel_error"))
    assert error is not None and repeat is not None
    beyond = (pl.col("top1_regret") > 0) & ~pl.col("top1_within_noise")
    problem, case, direction = (None if name is None else str(name) for name in place)
    return Fidelities(
        problem=problem,
        case=case,
        direction=direction,
        runs=rows.height,
        error=error,
        repeat=repeat,
        order=range_of(rows["spearman"]),
        regret=range_of(rows["top1_regret"]),
        beyond_noise=rows.filter(beyond).height,
    )


def gains(trees: Sequence[Tree]) -> dict[str, list[RunGain]]:
    """Return model -> gain in each run; after the models, Cases without a model."""
    found: dict[str, list[RunGain]] = {}
    for tree in trees:
        for worth in tree.worths:
            gain = RunGain(
                run=tree,
                over_developer=worth.speedup_over(worth.developer),
                over_best=worth.speedup_over(worth.rival),
                over_fastest=worth.speedup_over(worth.fastest),
                best_other=worth.rival.name if worth.rival else None,
                known=worth.needs_no_search(worth.rival),
                use=worth.use,
            )
            found.setdefault(worth.model, []).append(gain)
    for tree in trees:
        if tree.deployed is None:
            continue
        for row in tree.deployed.filter(pl.col("trained_in").is_null()).iter_rows(named=True):
            gain = RunGain(
                run=tree,
                over_best=columns_ratio(row, "gain"),
                best_other=row["best_other"] and arm_label(row["best_other"]),
                known=case_known(row),
                use=use_text(row["instead"]) if row["instead"] else "",
            )
            place = f"{row['case']} {row['direction']}".removesuffix(" forward")
            found.setdefault(place, []).append(gain)
    return found
