"""`overlayccl capture`: which collectives a training script calls, by which lines, and what they cost.

Run a script as usual (`overlayccl capture -- torchrun --nproc-per-node 4 train.py`), record some of its training
steps, end it, and say what they wait for. No line of the script changes. Without a cluster: one rank of many
(`--world-size 224 --rank 0 -- python train.py`). Without a run: traces and dumps that are there (`--from`).
"""

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from overlayccl_core.cli.captured_step import parts
from overlayccl_core.cli.compare_script import compare
from overlayccl_core.cli.render import console, print_line
from overlayccl_core.cli.script import command_of, started
from overlayccl_core.configuration.captured import SUFFIX
from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.presets import is_name
from overlayccl_core.observing.files import read_files
from overlayccl_core.observing.overview import Overview, overview
from overlayccl_core.observing.recorded import CapturedRank, recorded, rows
from overlayccl_core.tables.captured import CAPTURED_CALLS, CaptureSource
from overlayccl_core.tables.table import write

EXAMPLE = "overlayccl capture -- torchrun --nproc-per-node 4 train.py"
FAKE_HINT = (
    "On fake groups no value of another rank comes: a script that checks its loss, or reads objects or counts of "
    "other ranks, may stop"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the table (default: calls.parquet; of --compare steps.parquet)",
    )
    parser.add_argument(
        "--from",
        dest="files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="run nothing: read traces of torch.profiler (JSON) or dumps of the flight recorder, one a rank",
    )
    parser.add_argument(
        "--world-size",
        type=int,
        metavar="N",
        help="without a cluster: run one rank of N, on torch's fake process group. Values are garbage: a script "
        "that checks its loss, or reads objects of other ranks, may stop",
    )
    parser.add_argument(
        "--rank", type=int, default=0, metavar="R", help="of --world-size (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON, for programs to read")
    parser.add_argument(
        "--whole", action="store_true", help="let the script go on to its own end after the recorded steps"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="RUN",
        help="time the script as it is and with the calls that this run deployed, in turns",
    )
    parser.add_argument(
        "--steps", type=int, default=20, help="of a launch of --compare (default: %(default)s)"
    )
    parser.add_argument("--minutes", type=float, default=5, help="of --compare (default: %(default)s)")
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="how the script is started"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if all ranks recorded a step."""
    files: list[Path] | None = arguments.files
    if files and (arguments.script or arguments.compare):
        raise ValueError("--from FILE ... runs nothing: leave the command out, and --compare")
    if arguments.compare and (arguments.json or arguments.whole or arguments.world_size):
        raise ValueError("--compare takes --steps, --minutes and --output: leave the other options out")
    command = [] if files else command_of(arguments.script, EXAMPLE)
    output: Path = arguments.output or Path("calls.parquet" if arguments.compare is None else "steps.parquet")
    if not is_name(output.stem) or output.suffix != SUFFIX:
        raise ValueError(
            f"--output {output}: name it in small letters, such as calls{SUFFIX}: a folder of results gets its name"
        )
    if arguments.compare is not None:
        return compare(command, arguments.compare, output, steps=arguments.steps, minutes=arguments.minutes)
    found = read_files(files) if files else list(rows(_recorded(arguments, command, output)))
    if not found:
        raise ValueError("the steps make no collective call: there is nothing to look at")
    step = overview(write(CAPTURED_CALLS, found, output))
    then = next_commands(step, output, command, _deployment(arguments.root, step.world_size))
    if arguments.json:
        print(json.dumps({**asdict(step), "table": str(output), "next": then}, indent=1))
        return 0
    for part in parts(step):
        console().print(part, highlight=False, markup=False)
    print_line("\n".join(("Go on:", *(f"  {line}" for line in then))))
    return 0


def next_commands(step: Overview, table: Path, command: Sequence[str], deployment: str) -> list[str]:
    """Return the commands after a capture: search and prove, compare in the script itself; or find out in it."""
    search = f"snakemake --profile local all --config captured={shlex.quote(str(table))}"
    search += "" if deployment == "local" else f" deployment={deployment}"
    compared = f"overlayccl capture --compare results/{deployment}-{table.stem} -- {shlex.join(command)}"
    named = "" if deployment == "local" else f" --deployment {deployment}"
    online = f"overlayccl run{named} --online {shlex.quote(str(table))} --keep found -- {shlex.join(command)}"
    return {CaptureSource.SCRIPT: [search, compared, online], CaptureSource.FAKE: [search]}.get(
        CaptureSource(step.source), [EXAMPLE]
    )


def _deployment(root: Path, ranks: int) -> str:
    """Return the deployment of CPU ranks of this machine that has so many; NAME if there is none."""
    here = sorted(root.glob("config/deployments/local*.yaml"))
    return next((one.name for one in map(load_deployment, here) if one.ranks == ranks), "NAME")


def _recorded(arguments: argparse.Namespace, command: Sequence[str], output: Path) -> list[CapturedRank]:
    """Run the command, and return what its ranks recorded."""
    size, rank = arguments.world_size, arguments.rank
    if size is not None and not 0 <= rank < size:
        raise ValueError(f"--rank must be below --world-size, and not below 0 (got {rank} and {size})")
    with tempfile.TemporaryDirectory(prefix="overlayccl-", dir=output.parent) as name:
        folder = Path(name)
        alone = {} if size is None else _alone(size, rank)
        whole = {"OVERLAYCCL_WHOLE": "1"} if arguments.whole else {}
        variables = {"OVERLAYCCL_RECORD": str(folder.resolve()), **whole, **alone}
        code = started(command, folder, variables, sys.stderr if arguments.json else None)
        try:
            return recorded(folder)
        except ValueError as error:
            hint = "" if size is None else f". {FAKE_HINT}"
            raise ValueError(f"{error}; {command[0]} ended with {code}{hint}") from None


def _alone(size: int, rank: int) -> dict[str, str]:
    """Return the variables that torchrun gives its ranks, for one that is alone, and ours."""
    of_torchrun = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 1,
        "GROUP_RANK": rank,
    }
    named = {name: str(value) for name, value in of_torchrun.items()}
    return {**named, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "OVERLAYCCL_FAKE": "1"}
