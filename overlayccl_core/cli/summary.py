"""`overlayccl summary`: the modules to use after the last run; with --all every figure behind them."""

import argparse
from collections.abc import Iterable, Iterator

import polars as pl
from rich.console import Console, RenderableType

from overlayccl_core.cli import deployed_table, verdicts
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import NOTHING, case_parts, console, fidelity_table, shared_cores
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report import accuracy
from overlayccl_core.report.conditions import disturbed, emulated, of_nodes
from overlayccl_core.report.payback import cost_of, payback
from overlayccl_core.report.shortfalls import shortfalls
from overlayccl_core.report.tree import Tree, of_summary
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.published import FOLDER, earlier, not_as_confirmed
from overlayccl_core.tables.summary import SUMMARY

WIDEST = 100  # columns: a run ends with these tables, wherever it is watched


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--all", action="store_true", help="every arm, candidate and error of the cost model")


def run(arguments: argparse.Namespace) -> int:
    """Print the tables. ValueError before a run has finished."""
    return show_run(context(arguments), everything=arguments.all)


def show_run(where: Context, *, everything: bool) -> int:
    """Print the tables of a run; everything: `--all`. ValueError before it has finished."""
    summary = where.table(SUMMARY, "summary")
    if summary is None:
        raise ValueError(f"{where.results}: no summary yet: run {where.command()}")
    problems = list(summary["problem"].unique(maintain_order=True))
    names = ("fidelity", *(f"problems/{p}/fidelity" for p in problems))
    fidelity = pl.concat([table for name in names if (table := where.table(FIDELITY, name)) is not None])
    tree, probes = Tree(path=where.results, files=of_summary(where.results)), where.table(PROBES, "probes")
    screen = Console(width=min(console().width, WIDEST))

    def show(parts: Iterable[RenderableType], on: Console = screen) -> None:
        for part in parts:
            on.print(part, highlight=False, soft_wrap=on is not screen and isinstance(part, str))

    if everything:
        deployed = () if tree.deployed is None else deployed_table.case_parts(tree.deployed)
        show((*emulated(tree), *deployed_table.model_parts(tree.worths), *deployed))
        show(case_parts(summary, _link_gbps(where)), console())
        show((fidelity_table(fidelity), *accuracy.lines(tree)))
        show((*shared_cores(probes), *disturbed(tree), *of_nodes(tree)))
        show((*shortfalls(tree), *spent_text(tree)))
    else:
        show(verdicts.parts(tree, probes, summary))
    show((*changed_text(tree, where.command()), *earlier_text(tree), *_more(where, everything=everything)))
    return 0


def _link_gbps(where: Context) -> float | None:
    """Return the declared rate of a node's link, in 10^9 bytes a second; None: not declared."""
    rate = launcher_of(where.deployment).link_bytes_per_s(where.deployment)
    return None if rate is None else rate / 1e9


def _more(where: Context, *, everything: bool) -> Iterator[str]:
    """Yield the places of further results."""
    yield f"Page: {where.results}/report.html. Modules: {where.results}/deploy/."
    if not everything:
        command = f"overlayccl summary --all{where.place}"
        yield f"Every arm and Case, the cost model's errors, short measurements: {command}"


def changed_text(tree: Tree, command: str) -> Iterator[str]:
    """Yield a line for each file unlike the confirmed one."""
    for file in not_as_confirmed(sorted(tree.path.glob(f"{FOLDER}/*.json"))):
        what = "is not what was confirmed" if file.exists() else "is gone"
        yield f"{file} {what}, though all figures here are of that: {command} makes it again."


def earlier_text(tree: Tree) -> Iterator[str]:
    """Yield a line for each module of an earlier run, perhaps in use by a script."""
    for one in earlier(tree.path):
        yield (
            f"{one.path} is kept of an earlier run: nothing in deploy/ has {', '.join(one.cases)} now. A script "
            "that uses it can import that file; remove it when none does."
        )


def spent_text(tree: Tree) -> Iterator[str]:
    """Yield the cost of the run; nothing if a job of it left no duration."""
    cost = cost_of(tree)
    if cost is None or cost.unknown:
        return
    said = (
        f"The jobs behind this, of this run or of one before it, took {cost.seconds / 60:.1f} minutes in all."
    )
    paid = []
    for worth in tree.worths:
        others = [one for one in dict.fromkeys((worth.developer, worth.rival)) if one is not None]
        told = {one.name: payback(worth, one, cost).steps for one in others}
        if any(told.values()):
            over = (
                f"{NOTHING if steps is None else figures(steps)} over {name}" for name, steps in told.items()
            )
            paid.append(f"{worth.model} {', '.join(over)}")
    if paid:
        said += (
            " That is saved again, by each model alone, after so many training steps "
            f"(-: not faster beyond noise): {'; '.join(paid)}."
        )
    yield said
