"""`overlayccl summary`: what a run found, per Problem and Case, and how right the model was."""

import argparse
from typing import Any

import polars as pl

from overlayccl_core.cli.context import context
from overlayccl_core.cli.render import console, summary_parts
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.summary import SUMMARY


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("summary", help="the results of the last run")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the tables. ValueError where no run has been finished."""
    where = context(arguments.root, arguments.deployment)
    summary = where.table(SUMMARY, "summary")
    if summary is None:
        raise ValueError(f"{where.results}: no summary yet: run snakemake --profile local all")
    problems = summary["problem"].unique(maintain_order=True)
    found = [
        where.table(FIDELITY, name) for name in ("fidelity", *(f"problems/{p}/fidelity" for p in problems))
    ]
    probes = where.table(PROBES, "probes")
    for part in summary_parts(summary, pl.concat([f for f in found if f is not None]), probes):
        console().print(part, highlight=False, soft_wrap=isinstance(part, str))
    return 0
