"""`overlayccl init`: lay down a project of your own: configuration, profiles, strategies; no clone is needed.

Lay down a project of your own in an empty folder: the Snakefile and its rules, configuration, profiles, examples,
and a folder for plug-ins, which use the package that is installed.
"""

import argparse
from pathlib import Path

from overlayccl_core import project
from overlayccl_core.cli.render import print_line


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="an empty folder (.git may be in it), or one to be made"
    )
    parser.add_argument(
        "--own",
        nargs="+",
        default=[],
        metavar="PROBLEM",
        help="Problems whose strategies are copied into plugins/strategies, for you to add to",
    )


def run(arguments: argparse.Namespace) -> int:
    """Lay the project down, and print the next steps. ValueError for a folder in use."""
    folder = arguments.folder
    edited = project.lay(folder, tuple(arguments.own))
    print_line(f"{folder}: a project of your own. These are yours to change:")
    for path in edited:
        print_line(f"  {path}")
    print_line(
        "The Snakefile and rules/ go with the installed package; `overlayccl doctor` says where they differ."
    )
    print_line("Next:")
    print_line(f"  cd {folder}")
    print_line("  overlayccl doctor")
    print_line("  snakemake --profile local all --config preset=smoke")
    return 0
