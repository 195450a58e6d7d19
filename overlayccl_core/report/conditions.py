"""Measurements of a run: the rows with figures of its tables, and sentences on how far to rely on them."""

from collections.abc import Iterator

import polars as pl

from overlayccl_core.backends.measured import FOREIGN_CPU_LIMIT
from overlayccl_core.launching import fingerprint
from overlayccl_core.launching.node_report import LaunchClock, doubts
from overlayccl_core.measuring.job_status import MEASURED
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.report.blocks import count
from overlayccl_core.report.tree import Tree
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.page import OF_LAUNCHES
from overlayccl_core.tables.table import Table

NAMED = {  # in sentences; any other table is called by its name
    "probes": "probes of the cost model",
    "bench": "bench of candidates, by which was chosen",
    "steps": "training steps, by which was chosen",
    "confirmed": "passes that confirm the choice",
    "confirmed_steps": "steps that confirm the choice",
}


def frames(tree: Tree) -> dict[str, pl.DataFrame]:
    """Return measurement -> rows, of all measured tables of `all`, without failures on the ranks."""
    named = {
        NAMED.get(table.name, table.name): _rows(tree, table)
        for table in OF_LAUNCHES
        if table.rule in rules(ALL)
    }
    return {
        name: ran
        for name, frame in named.items()
        if frame is not None
        for ran in [frame.filter(pl.col("status").is_in(MEASURED)) if "status" in frame.columns else frame]
        if not ran.is_empty()
    }


def _rows(tree: Tree, table: Table) -> pl.DataFrame | None:
    match rules()[table.rule].of:
        case ():
            return tree.table(table, f"{table.folder}{table.name}")
        case ("model",):
            return tree.of_models(table)
        case ("problem",):
            return tree.of_problems(table)
    return tree.of_searches(table)


def fingerprints_of(tree: Tree) -> list[str]:
    """Return the fingerprints of the measurements."""
    return sorted({one for frame in frames(tree).values() for one in frame["fingerprint"].unique()})


def launches(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns `of` (Problem or model; empty: of all Problems), launch and disturbed of each launch."""
    if "model" in frame.columns:
        of = pl.col("model")
    elif "case" in frame.columns and "problem" not in frame.columns:
        of = pl.col("case").str.split("/").list.first()
    else:
        of = pl.lit("")
    return frame.group_by(of.alias("of"), "launch", maintain_order=True).agg(pl.col("disturbed").any())


def disturbed(tree: Tree) -> list[str]:
    """Return a sentence with the disturbed launches of each measurement, or none."""
    told = [
        f"{bad} of {count(here.height, 'launch', 'launches')} of {name}{f' ({of})' if of else ''}"
        for name, frame in frames(tree).items()
        for (of,), here in launches(timed(frame)).group_by("of", maintain_order=True)
        if (bad := here["disturbed"].sum())
    ]
    if not told:
        return []
    return [
        f"Disturbed: others took over {FOREIGN_CPU_LIMIT:.0%} of the CPU in {'; '.join(told)}. Rely on no gain "
        "where that is most launches: measure again on a quiet machine."
    ]


def timed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a purpose of timing."""
    return frame.filter(pl.col("purpose") == Purpose.TIMED) if "purpose" in frame.columns else frame


def of_nodes(tree: Tree) -> list[str]:
    """Return the sentences; none if all nodes are alike with agreeing clocks, or there is one host."""
    return doubts([one for frame in frames(tree).values() for one in _clocks(frame)])


def _clocks(frame: pl.DataFrame) -> Iterator[LaunchClock]:
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


def emulated(tree: Tree) -> list[str]:
    """Return a sentence for the library and one for links; none if both are real."""
    library, links = (
        sorted({said for one in fingerprints_of(tree) if (said := fingerprint.part(one, what))})
        for what in ("emulated", "links")
    )
    of_library = f"times are of {', '.join(library)}, not of the library's collectives between real ranks."
    of_links = (
        f"the rate of the links between hosts ({', '.join(links).removesuffix(' emulated')}). The hosts are "
        "network namespaces of one machine; the library's traffic over the links is real."
    )
    return [f"Emulated: {said}" for said, what in ((of_library, library), (of_links, links)) if what]
