"""Sentences on unlike nodes and diverging clocks, over all measurements of a run."""

from collections.abc import Iterator

import polars as pl

from overlayccl_core.launching.node_report import LaunchClock, doubts
from overlayccl_core.report.measured import frames
from overlayccl_core.report.tree import Tree


def of_nodes(tree: Tree) -> list[str]:
    """Return the sentences; none if all nodes are alike with agreeing clocks, or there is one host."""
    return doubts([one for frame in frames(tree).values() for one in _timed(frame)])


def _timed(frame: pl.DataFrame) -> Iterator[LaunchClock]:
    """Yield the shortest timing for each kind of nodes and clock offset."""
    lasted = (
        pl.col("steps_us").list.min()
        if "steps_us" in frame.columns
        else pl.col("samples_us").list.min() * pl.col("repeats")
    )
    kinds = frame.group_by("nodes", "clock_off_by_us", maintain_order=True).agg(
        lasted.min().alias("shortest")
    )
    for nodes, off_by_us, shortest_us in kinds.drop_nulls("shortest").iter_rows():
        yield LaunchClock(nodes=nodes, clock_off_by_us=off_by_us, shortest_us=shortest_us)
