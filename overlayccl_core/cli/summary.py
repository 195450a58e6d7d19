"""`overlayccl summary`: the modules to use after the last run; with --all every figure behind them."""

import argparse
from collections.abc import Iterable, Iterator

import polars as pl
from rich.console import Console, RenderableType

from overlayccl_core.cli import deployed_table, verdicts
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import case_parts, console, fidelity_table, shared_cores
from overlayccl_core.configuration.prices import price_of
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report import accuracy
from overlayccl_core.report.conditions import disturbed, emulated, of_nodes
from overlayccl_core.report.end_to_end import end_to_end
from overlayccl_core.report.payback import (
    Cost,
    cost_of,
    known_sum,
    payback,
    rival_of,
    start_us,
    steps_text,
    together_over,
)
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
    price, probes = price_of(where.deployment.node, where.root), where.table(PROBES, "probes")
    tree = Tree(
        path=where.results,
        files=of_summary(where.results),
        node_usd_per_hour=None if price is None else price.usd_per_hour,
    )
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
        show(shortfalls(tree))
    else:
        show(verdicts.parts(tree, probes, summary))
    show(
        (
            *spent_text(tree),
            *changed_text(tree, where.command()),
            *earlier_text(tree),
            *_more(where, everything=everything),
        )
    )
    return 0


def _link_gbps(where: Context) -> float | None:
    """Return the declared rate of a node's links together, in 10^9 bytes a second; None: not declared."""
    launcher = launcher_of(where.deployment)
    rate = launcher.link_bytes_per_s(where.deployment)
    return None if rate is None else rate * launcher.rails(where.deployment) / 1e9


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
    """Yield one line: the cost of the run, and when it is saved; nothing if a job of it left no duration."""
    cost = cost_of(tree)
    if cost is None or cost.unknown:
        return
    said = f"Found in {cost.seconds / 60:.1f} minutes of jobs"
    if nodes := cost.node_seconds:
        said += f" ({figures(nodes / 3600)} node-hours{_money(cost)})"
    said += f". Saved again after: {'; '.join(_saved(tree, cost))}." if tree.worths else "."
    yield said + "".join(_instead(tree, cost))


def _money(cost: Cost) -> str:
    usd = cost.usd(cost.node_seconds)
    return "" if usd is None else f", {usd:.2f} USD"


def _saved(tree: Tree, cost: Cost) -> Iterator[str]:
    """Yield the break-even of each model, and of all together."""
    for worth in tree.worths:
        others = [one for one in dict.fromkeys((worth.developer, rival_of(worth))) if one is not None]
        told = [(one.name, payback(worth, one, cost, start_us(tree, worth, one))) for one in others]
        over = [f"{steps_text(paid)} over {name}" for name, paid in told if paid.saved_us]
        over += ["never over the known way itself"] if over and worth.known and not worth.instead else []
        yield f"{worth.model} {' and '.join(over) or 'never'}"
    if len(tree.worths) > 1:
        paid = together_over(tree, tree.worths, cost, rival=False)
        yield f"all together {steps_text(paid) if paid.saved_us else 'never'} over developer"


def _instead(tree: Tree, cost: Cost) -> Iterator[str]:
    """Yield what training every candidate would have taken."""
    models = end_to_end(tree, cost)
    seconds = sum(one.seconds for one in models)
    nodes = known_sum(one.node_seconds for one in models)
    if seconds and nodes and cost.node_seconds:
        yield (
            f" To train every proven candidate as the finalists were: {figures(seconds / 3600)} hours, "
            f"{figures(nodes / cost.node_seconds)} times this run's node-seconds (report.html: what it cost)."
        )
