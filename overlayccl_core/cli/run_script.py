"""`overlayccl run`: a training script with proven calls in place of its own; no line of it changes.

`overlayccl run --ways results/local-calls -- torchrun --nproc-per-node 4 train.py`. Each call for which the run
deployed a way is made in that way, on all ranks alike; every other stays as it is. Without --ways all stay.
With --export the folder for a cluster is written in place of a start: our process group and the ways, which need
torch alone.
"""

import argparse
import tempfile
from pathlib import Path

from overlayccl_core.cli.render import say
from overlayccl_core.cli.script import command_of, lay_group, started, ways_of

EXAMPLE = "overlayccl run --ways results/local-calls -- torchrun --nproc-per-node 4 train.py"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--ways", type=Path, metavar="RUN", help="the results of a captured step's run")
    parser.add_argument(
        "--export", type=Path, metavar="FOLDER", help="write all that the ranks need, start nothing"
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="how the script is started"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return the exit code of the script."""
    if arguments.export is not None:
        if arguments.script:
            raise ValueError("--export starts nothing: leave the command out")
        return _export(arguments.export, arguments.ways)
    command = command_of(arguments.script, EXAMPLE)
    with tempfile.TemporaryDirectory(prefix=".overlayccl-", dir=Path()) as name:
        folder = Path(name).resolve()
        variables = {}
        if arguments.ways is not None:
            ways = ways_of(arguments.ways)
            if ways.rows:
                ways.lay(folder)
                variables["OVERLAYCCL_WAYS"] = str(folder)
            for line in () if ways.rows else ("no other way, so the script runs as it is", *ways.others):
                say(f"{arguments.ways}: {line}")
        return started(command, folder, variables)


def _export(folder: Path, ways: Path | None) -> int:
    if ways is None:
        raise ValueError("--export needs --ways RUN: which ways")
    if folder.exists():
        raise ValueError(f"{folder}: there is something already: name a folder that is not there yet")
    found = ways_of(ways)
    folder.mkdir(parents=True)
    lay_group(folder)
    found.lay(folder)
    say(
        f"{folder}: {len(found.rows)} ways. On every node, where it is at the same path:\n"
        f"  PYTHONPATH={folder} OVERLAYCCL_WAYS={folder} torchrun ... train.py"
    )
    return 0
