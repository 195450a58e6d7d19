"""`overlayccl report`: one HTML page, with figures, of what one or several runs found."""

import argparse
from pathlib import Path

from overlayccl_core.cli.context import context
from overlayccl_core.tables.atomic import write_bytes

NAME = "report.html"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "trees",
        nargs="*",
        type=Path,
        metavar="TREE",
        help="folders of runs, the default one first (default: the deployment's, results/<deployment>)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"where the page goes (default: {NAME} in the first TREE)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the page. ValueError for a folder without a run, or a damaged table."""
    # The renderer takes half a second to import: only this command should pay.
    from overlayccl_core.report.page import page
    from overlayccl_core.report.tree import trees_of

    paths = arguments.trees or [context(arguments).results]
    output = arguments.output or paths[0] / NAME
    write_bytes(output, page(trees_of(paths), output.parent).encode())
    print(output)
    return 0
