"""A run beside somebody who keeps all cores busy: `python -m benchmarks neighbour` (ten minutes).

Two runs of preset smoke in copies of the repository (with three launches that confirm, so that ratios have
intervals), one of them with a busy loop for each core from its first job to its last. What must hold: every launch
of the second is marked as disturbed; and what is deployed is the same, or the run keeps what needs no search and
says that intervals overlap (undecided).
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.copies import TREE, Copy
from overlayccl_core.cli.render import times
from overlayccl_core.report.conditions import frames
from overlayccl_core.report.sentences import warnings
from overlayccl_core.report.tree import Tree
from overlayccl_core.report.worth import Worth

CHANGED = {"confirm: {launches: 1,": "confirm: {launches: 3,"}


def report() -> Iterator[str]:
    """What was marked, what was deployed, and what was said, in both runs."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, busy in (("quiet", 0), ("beside a neighbour", os.cpu_count() or 1)):
            copy = Copy(Path(folder) / name.replace(" ", "-"), CHANGED)
            with _busy(busy):
                seconds, _ = copy.to_the_end()
            runs[name] = Tree(path=copy.root / TREE)
            yield f"{name}: {seconds:.0f} s"
            for table, frame in frames(runs[name]).items():
                share = max(frame["foreign_cpu_share"].drop_nulls().to_list(), default=0.0)
                marked = f"{frame['disturbed'].sum()} of {frame.height} rows disturbed"
                yield f"  {table}: {marked}, others took at most {share:.0%} of the CPU"
            for worth in runs[name].worths:
                yield from _said(worth)
        quiet, busy_run = runs.values()
        yield from _judged(quiet, busy_run)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    command = (sys.executable, "-c", "while True: pass")
    running = [subprocess.Popen(command) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def _said(worth: Worth) -> Iterator[str]:
    mine = worth.deployed
    if mine is not None:
        yield (
            f"  {worth.model}: {mine.ran_as} at M = {mine.microbatches}, "
            f"{times(worth.speedup_over(worth.rival))} of {worth.rival.name if worth.rival else 'nothing'}"
        )
    yield from (f"    {said}" for said in warnings(worth))


def _judged(quiet: Tree, busy: Tree) -> Iterator[str]:
    """What has to hold, and whether it does."""
    marked = [bool(frame["disturbed"].all()) for frame in frames(busy).values()]
    yield f"  launches beside the neighbour marked as disturbed: {'all' if all(marked) else 'NOT ALL'}"
    for before, now in zip(quiet.worths, busy.worths, strict=True):
        same = before.candidates == now.candidates and before.chosen_as == now.chosen_as
        speedup = now.speedup_over(now.rival)
        baseline = now.deployed is not None and not now.deployed.needs_search
        if same:
            word = "the same is deployed"
        elif speedup is not None and speedup.low is None:
            word = "ANOTHER IS DEPLOYED, AND ITS GAIN HAS NO INTERVAL"
        elif baseline and (speedup is None or speedup.word == "undecided"):
            word = "what needs no search is deployed, and called undecided"
        else:
            word = "ANOTHER IS DEPLOYED, AND NOT CALLED UNDECIDED, OR NO BASELINE"
        yield f"  {now.model}: {word}"
