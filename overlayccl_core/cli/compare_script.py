"""`overlayccl capture --compare`: somebody's script as it is and with proven calls, in turns, in fresh launches."""

import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl

from overlayccl_core.cli.render import ms, say
from overlayccl_core.cli.script import timed, ways_of
from overlayccl_core.measuring.statistics import FEWEST_LAUNCHES, Ratio
from overlayccl_core.observing.compared import (
    LEFT_OUT,
    PLAIN,
    TUNED,
    Launched,
    gain,
    half_width,
    losses_apart,
    rows,
    step_us,
)
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.table import write

FEWEST_PAIRS = 5
NARROW_ENOUGH = 0.05
OWN_TIMES = 10
"""How many times as far apart as plain launches a tuned one may be: a few launches tell their spread badly."""
LOSSES_ALIKE = 1e-4
"""Largest relative difference of losses where sums are added up in another order."""


def compare(command: Sequence[str], tree: Path, output: Path, *, steps: int, minutes: float) -> int:
    """Time a script in both modes, and print how they compare; return 1 if its losses are not alike.

    Pairs of launches go on until the interval's half-width is at most 5%, or the time is over.

    Args:
        tree: Results of the captured step's run, or the folder of one that tuned itself.
        output: Gets the table `script_steps`.
        steps: Training steps of a launch.
        minutes: After which no more than the fewest pairs begin.
    """
    if steps < LEFT_OUT + 2:
        raise ValueError(
            f"--steps {steps}: the first {LEFT_OUT} of a launch do not count: at least {LEFT_OUT + 2}"
        )
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix=".overlayccl-", dir=Path()) as name:
        folder = Path(name).resolve()
        ways = ways_of(tree)
        if not ways.rows:
            print("No call of the script has a faster way by itself: leave it as it is.")
            print(*ways.others, sep="\n", end="\n" * bool(ways.others))
            return 0
        ways.lay(folder)
        until = time.monotonic() + 60 * minutes
        for pair in count():
            ranks = {
                mode: _launch(command, folder, f"{pair}-{mode}", mode, steps)
                for mode in ((PLAIN, TUNED) if pair % 2 == 0 else (TUNED, PLAIN))
            }
            found += (row for mode, of in ranks.items() for row in rows(pair, mode, of))
            table = write(SCRIPT_STEPS, found, output)
            ratio, tuned = gain(table), ranks[TUNED]
            _check(tree, ways.ranks, ranks)
            if pair + 1 >= FEWEST_LAUNCHES:
                say(f"pair {pair + 1}: {ratio} times as fast")
            if pair + 1 >= FEWEST_PAIRS and (half_width(ratio) <= NARROW_ENOUGH or time.monotonic() > until):
                break
    apart, allowed = _losses(table, tuned)
    for line in (*_gain_lines(table, ratio, tuned, tree), *ways.others, *_loss_lines(apart, allowed)):
        print(line)
    return int(not _alike(apart, allowed))


def _check(tree: Path, size: int, ranks: Mapping[str, Mapping[int, Launched]]) -> None:
    """ValueError if these launches say nothing about the run's ways: of other ranks, or none was used."""
    for mode, of in ranks.items():
        if len(of) != size:
            raise ValueError(
                f"{len(of)} ranks of the {mode} script came to the end, and {tree} is of {size}: start as many, or "
                "capture it anew"
            )
    if not any(one.made for one in ranks[TUNED].values()):
        raise ValueError(
            f"no call of the script was made in a way of {tree}: that is of other calls. Capture this script"
        )


def _launch(command: Sequence[str], folder: Path, name: str, mode: str, steps: int) -> dict[int, Launched]:
    ways = {"OVERLAYCCL_WAYS": str(folder)} if mode == TUNED else {}
    return timed(command, folder, name, ways, steps, mode)


def _gain_lines(table: pl.DataFrame, ratio: Ratio, tuned: dict[int, Launched], tree: Path) -> Iterator[str]:
    pairs = table["pair"].n_unique()
    wide = half_width(ratio) > NARROW_ENOUGH
    word = "undecided" if wide and not (ratio.beyond_noise or ratio.slower) else ratio.word
    yield f"{word}: with proven calls the script is {ratio} times as fast ({pairs} pairs of launches)"
    if wide:
        yield f"  the interval is wide (half of it: {half_width(ratio):.0%}): more --minutes narrow it"
    for mode in (PLAIN, TUNED):
        of = step_us(table, mode)
        yield f"  {mode}: {ms(float(np.median([np.median(one) for one in of.values()])))} ms a step"
    made = tuned[min(tuned)]
    steps = len(made.ends)
    for case, times in made.made.items():
        yield f"  {times / steps:.1f} calls a step by {case} ({made.numerics.get(case, '')})"
    yield (
        f"To use them: overlayccl run --ways {tree} -- COMMAND"
        if ratio.beyond_noise
        else "Leave the script as it is."
    )


def _losses(
    table: pl.DataFrame, tuned: dict[int, Launched]
) -> tuple[tuple[float | None, float | None], float]:
    """Return (how far apart tuned from plain, plain from plain), and how far they may be."""
    classes = {name for one in tuned.values() for case, name in one.numerics.items() if case in one.made}
    allowed = {NumericsClass.EXACT: 0.0, NumericsClass.REORDERED: LOSSES_ALIKE, NumericsClass.LOSSY: math.inf}
    pairs = range(table["pair"].n_unique())
    apart = _largest(losses_apart(table, (pair, PLAIN), (pair, TUNED)) for pair in pairs)
    own = _largest(losses_apart(table, (0, PLAIN), (pair, PLAIN)) for pair in pairs)
    return (apart, own), max((allowed[NumericsClass(name)] for name in classes), default=0.0)


def _largest(apart: Iterable[float | None]) -> float | None:
    known = [one for one in apart if one is not None]
    return float(np.max(known)) if known else None  # of NaN and numbers it is NaN


def _alike(apart: tuple[float | None, float | None], allowed: float) -> bool:
    mine, own = apart
    return mine is None or (math.isfinite(mine) and mine <= max(allowed, OWN_TIMES * (own or 0.0)))


def _loss_lines(apart: tuple[float | None, float | None], allowed: float) -> Iterator[str]:
    mine, own = apart
    if mine is None:
        yield "losses: no backward pass began at one number, so none were compared"
    elif not mine:
        yield "losses: equal to the last bit in all steps, on all ranks"
    elif mine <= allowed:
        yield f"losses: differ by {mine:.1e} at most; sums in another order may make {allowed:.0e}"
    elif _alike(apart, allowed):
        yield f"losses: differ by {mine:.1e}; two launches of the plain script by {own:.1e} themselves (no seed?)"
    else:
        yield f"LOSSES DIFFER by {mine:.1e}, where {allowed:.0e} is allowed: do not use these calls, and report it"
