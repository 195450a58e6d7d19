"""`overlayccl redeploy`: take what was chosen on one deployment to another, and see what that costs.

The target `redeploy` of the pipeline: the recipes chosen in one run (--deployment, --preset) are replayed, proven
and priced at the Cases of another deployment (--to), timed there beside its known ways, and deployed if they pass.
What was chosen there, if anything, is timed beside them: the regret.
"""

import argparse
import subprocess
import sys
from itertools import chain
from pathlib import Path

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import NOTHING, console, ms, plain_table, print_line, print_text, say
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence import redeployment
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.report.regret import READING, lines, table
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.stages import cases, known_ways, redeployed
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.redeploy import REDEPLOYED, REGRET, SOURCE_PRICES, TARGET, Replayed
from overlayccl_core.tables.remake import RESULTS, profile_in_use
from overlayccl_core.tables.sidecar import read_unchanged

FAILED, NOT_REPLAYED = 1, 1


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--to", required=True, metavar="NAME", help="a file in config/deployments: where to")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--show", action="store_true", help="print the end of the last one, and run nothing")
    how.add_argument(
        "--no-measure",
        action="store_true",
        help="replay, prove and price only, without a run: starts no ranks, writes nothing",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 when it is done, 1 after a failed run, or if a recipe does not replay without a run."""
    where = context(argparse.Namespace(**{**vars(arguments), "deployment": arguments.to}))
    if arguments.show:
        return show(where)
    source = context(arguments).settings.tree
    redeployment.check(where.root / RESULTS, where.settings.tree, source)
    if arguments.no_measure:
        return replay_only(where, source)
    end = _regret(where.results)
    before = end.stat().st_mtime_ns if end.exists() else None
    if _snakemake(where, source):
        say("the run failed; what was measured is kept, and the same command goes on from there")
        return FAILED
    return (
        show(where) if end.exists() and before == end.stat().st_mtime_ns else 0
    )  # else its rule has printed it


def show(where: Context) -> int:
    """Print the last run's end, and that of the other way round if there is one. ValueError before a run."""
    here = where.results
    if not _regret(here).exists():
        raise ValueError(
            f"{here / TARGET}: nothing was redeployed yet: run overlayccl redeploy --to {where.asked_for}"
        )
    other = here.with_name(str(redeployment.kept(here / redeployment.KEPT)))
    both = redeployment.kept(other / redeployment.KEPT) == here.name and _regret(other).exists()
    for tree in (here, other)[: 1 + both]:
        _print_end(tree)
    print_text(READING)
    print_line(f"Page: {here / TARGET}/regret.html. Modules: {here / TARGET}/deploy/.")
    return 0


def replay_only(where: Context, source: str) -> int:
    """Print what becomes of each choice; 1 if one of them does not replay."""
    choices = redeployment.choices(where.root / RESULTS, where.settings.tree, source)
    tables = where.theta_tables()
    facts = DeploymentFacts(
        theta=Theta((), 1.0, 1.0) if tables is None else theta_of(*tables),
        capabilities=where.capabilities(),
        memory_budget_bytes=where.deployment.memory_budget_bytes,
    )
    rows = []
    for problem in where.settings.problems:
        if not (configured := where.cases(problem)):
            continue
        listed = pl.DataFrame([cases.row(case) for case in configured], schema=CASES.schema)
        of_each = (
            known_ways.known_way_rows(one, facts.capabilities, facts.memory_budget_bytes)
            for case in configured
            for one in catalog.directions(case)
        )
        proven = pl.DataFrame(list(chain.from_iterable(of_each)), schema=KNOWN_WAYS.schema)
        rows += redeployed.run(choices, listed, proven, facts, progress=say)["redeployed"]
    shown = plain_table(
        f"{source} on {where.settings.tree}", "Case", "way", "outcome", ">predicted ms", fold=("way",)
    )
    others = [row for row in rows if row["tree"] == source]
    for row in others:
        place = f"{row['case']}{' backward' * (row['direction'] == 'backward')}"
        shown.add_row(place, row["way"] or NOTHING, row["outcome"].replace("_", " "), ms(row["predicted_us"]))
    console().print(shown)
    for row in others:
        if row["message"]:
            print_line(f"{row['case']} {row['direction']}: {row['message']}")
    if tables is None:
        print_line(where.unfitted)
    return 0 if all(row["outcome"] in (Replayed.PROVEN, Replayed.NO_CASE) for row in others) else NOT_REPLAYED


def _print_end(results: Path) -> None:
    """Print the table of regret of a tree, and what it says."""
    regret = read_unchanged(REGRET, _regret(results))
    files = sorted(results.glob(f"{TARGET}/problems/*/{REDEPLOYED.name}.parquet"))
    block = table(regret)
    shown = plain_table(f"{results.name}: {block.title}", *block.headers, fold=block.headers)
    for row in block.rows:
        shown.add_row(*row)
    console().print(shown, highlight=False)
    became = pl.concat(read_unchanged(REDEPLOYED, file) for file in files)
    prices = read_unchanged(SOURCE_PRICES, results / TARGET / f"{SOURCE_PRICES.name}.parquet")
    for line in lines(results.name, regret, became, prices):
        print_line(line)


def _regret(results: Path) -> Path:
    return results / TARGET / f"{REGRET.name}.parquet"


def _snakemake(where: Context, source: str) -> int:
    """Run the target, with its output on the terminal; return its exit code."""
    profile = where.profile.name if where.profile else profile_in_use()
    config = (f"deployment={where.deployment.name}", f"preset={where.settings.preset}", f"source={source}")
    words = ("--profile", profile, TARGET, "--quiet", "host", "--config", *config)
    return subprocess.run([sys.executable, "-P", "-m", "snakemake", *words], cwd=where.root).returncode
