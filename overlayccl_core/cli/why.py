"""`overlayccl why`: what a run would do again, and because of what. Nothing is started."""

import argparse
import subprocess
import sys
from pathlib import Path

from overlayccl_core.archiving.manifest import NAME
from overlayccl_core.archiving.unpacked import is_unpacked
from overlayccl_core.cli.unread import NOBODY_READS

SCRIPT = "workflow_scripts.why"
WRONG_INPUT = 2


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "target", nargs="?", default="all", metavar="TARGET", help="of Snakemake (default: all)"
    )
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument(
        "--configfile", nargs="+", default=[], type=Path, metavar="FILE", help="as Snakemake's"
    )


def run(arguments: argparse.Namespace) -> int:
    """Plan in a process of its own, with its output on the terminal; return 2 if there is no plan.

    ValueError in an unpacked archive: a plan runs the Snakefile in it.
    """
    if is_unpacked(arguments.root):
        mend = "read it, then type: snakemake --profile local -n all"
        raise ValueError(f"this is an archive ({arguments.root / NAME}), and why runs its Snakefile: {mend}")
    asked = [f"{key}={value}" for key in ("deployment", "preset") if (value := getattr(arguments, key))]
    config = [*arguments.config, *asked]
    words = [arguments.target, *(("--config", *config) if config else ())]
    if arguments.configfile:
        words += ["--configfile", *(str(file.absolute()) for file in arguments.configfile)]
    if arguments.profile:
        words += ["--profile", arguments.profile]
    done = subprocess.run([sys.executable, "-P", "-m", SCRIPT, *words], cwd=arguments.root)
    return done.returncode if done.returncode in (0, NOBODY_READS) else WRONG_INPUT
