"""Tell which jobs a run would do again, and why: `make why`, or with a profile and --config of its own.

    python -m workflow_scripts.why --profile local [--config key=value ...] [--configfile FILE ...] [target]

Nothing is started. A job behind a remade table runs only if the table comes out different, or if the job has a
cause of its own.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from snakemake.cli import parse_config

from overlayccl_core.cli.unread import until_unread
from workflow_scripts import dag
from workflow_scripts.causes import SHOWN, because


def _rule(job: Any) -> str:
    return f"{job.rule.name}{'*' if dag.ALONE in job.rule.resources else ''}"


def _name(job: Any) -> str:
    """`known_ways tp_mlp`."""
    return " ".join(
        [
            job.rule.name,
            *(job.wildcards.get(n) for n in ("problem", "model", "search") if job.wildcards.get(n)),
        ]
    )


def _by_rule(jobs: list[Any]) -> str:
    """`bench* (9), probe*`."""
    counts = Counter(map(_rule, jobs))
    return ", ".join(f"{rule} ({count})" if count > 1 else rule for rule, count in counts.items())


def told(causes: dict[str, list[Any]], behind: list[Any]) -> Iterator[str]:
    """Yield the lines to print."""
    if not causes:
        yield "Nothing is to be done."
        return
    for cause, jobs in causes.items():
        yield f"{', '.join(map(_name, jobs)) if len(jobs) <= SHOWN else _by_rule(jobs)}: {cause}"
    if behind:
        yield "Then, if what these make comes out different (*: on the ranks):"
        yield f"  {_by_rule(behind)}"


def main() -> None:
    """Print the causes."""
    parser = argparse.ArgumentParser(prog="python -m workflow_scripts.why", description=__doc__)
    parser.add_argument("target", nargs="?", default="all")
    parser.add_argument("--profile", default="local", help="as Snakemake's")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="as Snakemake's")
    parser.add_argument(
        "--configfile", nargs="*", default=[], type=Path, metavar="FILE", help="as Snakemake's"
    )
    asked = parser.parse_args()
    if "--profile" not in sys.argv:
        sys.argv += ["--profile", asked.profile]  # the Snakefile looks up the profile in use
    with tempfile.TemporaryFile() as hidden, _shown_where_it_fails(hidden):
        workflow = dag.planned(parse_config(asked.config), asked.target, configfiles=asked.configfile)
        causes, behind = because(workflow)
    pipeline = workflow.globals["PIPELINE"]
    said = (pipeline.left_out, pipeline.elsewhere, pipeline.besides, pipeline.unrecorded)
    print("\n".join(filter(None, (*said, *told(causes, behind)))))


@contextmanager
def _shown_where_it_fails(said: BinaryIO) -> Iterator[None]:
    """Hide Snakemake's output in a file, and show it if the plan fails."""
    streams = {number: os.dup(number) for number in (1, 2)}
    for number in streams:
        os.dup2(said.fileno(), number)
    failed = True
    try:
        yield
        failed = False
    finally:
        sys.stdout.flush()
        for number, stream in streams.items():
            os.dup2(stream, number)
        if failed:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))


if __name__ == "__main__":
    sys.exit(until_unread(main))
