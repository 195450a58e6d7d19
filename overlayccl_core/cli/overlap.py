"""`overlayccl overlap`: does hiding calls behind computing pay in each model's step, and would more of it?

For each model of a finished run: the fastest arm whose calls are waited for, and the fastest whose calls can be in
flight while the model computes. Both are taken apart into computing alone and calls alone, with 95% intervals.
"""

import argparse

from overlayccl_core.cli.context import context
from overlayccl_core.cli.render import console, plain_table
from overlayccl_core.report.overlap import COLUMNS, NUMERIC, READING, arms_of, overlaps_of


def run(arguments: argparse.Namespace) -> int:
    """Print a verdict and two rows for each model; ValueError before a run confirmed its choices."""
    where = context(arguments)
    found = overlaps_of(where.tree) if where.tree else []
    if not found:
        raise ValueError(
            f"{where.results}: no step was taken apart there: set confirm.apart to true in "
            f"config/config.yaml, then run {where.command()}"
        )
    headers = [f">{name}" if place in NUMERIC else name for place, name in enumerate(COLUMNS)]
    table = plain_table(None, *headers)
    for one in arms_of(found):
        table.add_row(*(cell(one) for cell in COLUMNS.values()))
    for part in (*(f"{one.said}." for one in found), table, READING):
        console().print(part, highlight=False)
    return 0
