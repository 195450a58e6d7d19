"""`overlayccl run`: a training script with proven calls in place of its own; no line of it changes.

`overlayccl run --ways results/local-calls -- torchrun --nproc-per-node 4 train.py`. Each call for which the run
deployed a way is made in that way, on all ranks alike; every other stays as it is. Without --ways all stay.
With --export the folder for a cluster is written in place of a start: our process group and the ways, which need
torch alone.

With --lossy large sums are sent in fewer bytes, which changes what is trained: `overlayccl losses` judges how.

`overlayccl run --online calls.parquet -- torchrun ... train.py` needs no run before it: each call is made in all of
its proven ways while the script trains, and the fastest is found there (`process_group/online.py`).
"""

import argparse
import json
import tempfile
from pathlib import Path

from overlayccl_core.cli.context import context
from overlayccl_core.cli.render import say
from overlayccl_core.cli.script import command_of, lay_group, started, ways_of
from overlayccl_core.process_group.parts import FOUND, MODULE, WAYS, LossySetting
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.published import FOLDER
from overlayccl_core.tables.table import read
from overlayccl_core.tuning.open_ways import module_of, rows_of, spaces

EXAMPLE = "overlayccl run --ways results/local-calls -- torchrun --nproc-per-node 4 train.py"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--ways", type=Path, metavar="RUN", help="the results of a captured step's run")
    parser.add_argument(
        "--online",
        type=Path,
        metavar="CALLS",
        help="a captured step: try all proven ways of its calls while the script trains, and go on in the fastest",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="of --online: the ways and what was found stay here, for --ways, `capture --compare`, the next run",
    )
    parser.add_argument(
        "--lossy",
        metavar="HOW[:GROUPS]",
        help="large sums in bf16 or int8; of groups of 4 ranks only: int8:4, each 8 after the one before: "
        "int8:4x8; with --ways or --online, calls of all other groups in these ways",
    )
    parser.add_argument(
        "--export", type=Path, metavar="FOLDER", help="write all that the ranks need, start nothing"
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="how the script is started"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return the exit code of the script."""
    if arguments.online is not None and arguments.ways is not None:
        raise ValueError("--ways names ways that were chosen, --online leaves them open: give one of the two")
    if arguments.keep is not None and arguments.online is None:
        raise ValueError("--keep is for what --online finds: name the captured step")
    if arguments.online is not None and arguments.export is not None:
        raise ValueError("--export is for --ways: ways that are open come from a start of the script, here")
    if arguments.lossy is not None:
        if arguments.export is not None:
            raise ValueError(
                "--export is for --ways: --lossy needs nothing but OVERLAYCCL_LOSSY on the ranks"
            )
        LossySetting.of(arguments.lossy)
    if arguments.export is not None:
        if arguments.script:
            raise ValueError("--export starts nothing: leave the command out")
        return _export(arguments.export, arguments.ways)
    command = command_of(arguments.script, EXAMPLE)
    with tempfile.TemporaryDirectory(prefix=".overlayccl-", dir=Path()) as name:
        folder = Path(name).resolve()
        variables = {} if arguments.lossy is None else {"OVERLAYCCL_LOSSY": arguments.lossy}
        if arguments.ways is not None:
            ways = ways_of(arguments.ways)
            if ways.rows:
                ways.lay(folder)
                variables["OVERLAYCCL_WAYS"] = str(folder)
            for line in () if ways.rows else ("no other way, so the script runs as it is", *ways.others):
                say(f"{arguments.ways}: {line}")
        if arguments.online is not None:
            kept = folder if arguments.keep is None else arguments.keep.resolve()
            _lay_open_ways(arguments, kept)
            variables |= {"OVERLAYCCL_WAYS": str(kept), "OVERLAYCCL_TUNED": str(kept)}
        return started(command, folder, variables)


def _lay_open_ways(arguments: argparse.Namespace, folder: Path) -> None:
    """Lay the ways of a captured step's calls, all of them, and say how many there are.

    What was found about the same ways before stays there.
    """
    where = context(arguments)
    try:
        space = spaces(read(CAPTURED_CALLS, arguments.online), where.deployment, where.capabilities())
    except ValueError as error:
        raise ValueError(f"--online {arguments.online}: {error}") from None
    if not space:
        raise ValueError(f"--online {arguments.online}: no call of the step has another proven way")
    texts = {MODULE: module_of(space, where.deployment), WAYS: rows_of(space)}
    if (folder / FOLDER).exists():
        raise ValueError(f"--keep {folder} has the results of a run: name a folder of its own")
    there = {name: (folder / name).read_text() for name in texts if (folder / name).exists()}
    if WAYS in there and not _of_same_calls(there[WAYS], texts[WAYS]):
        raise ValueError(
            f"--keep {folder} has the ways of other calls: name another folder, or remove this one"
        )
    if there and there != texts and list(folder.glob(FOUND)):
        say(f"{folder}: what was found there is of other ways or another torch: all ways are tried anew")
    for name in (one for one in texts if there.get(one) != texts[one]):
        write_text(folder / name, texts[name])
    many = sum(map(len, space.values()))
    say(f"{arguments.online}: {len(space)} calls with {many} proven ways, tried while the script trains")


def _of_same_calls(rows: str, others: str) -> bool:
    """Return whether two texts of ways.json are of the same calls; a damaged one is of none."""
    try:
        one, other = ({tuple(row["key"]) for row in json.loads(text)} for text in (rows, others))
    except (ValueError, LookupError, TypeError):
        return False
    return one == other


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
