"""Schedules of others beside ours: `python -m benchmarks written FOLDER`.

Each MSCCL file of a folder is read, and its Program written again. A line for each of both: what a rank sends and
what the busiest link carries, over the larger of input and output; thread blocks, channels, steps by kind. What
we write runs on the simulated machine of tests/schedules in two orders; if it goes wrong, the exit code is 1.
`benchmarks/schedules.py` names places of published files.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.counts import ScheduleCounts, counts
from overlayccl_core.schedules.msccl_writing import write
from overlayccl_core.schedules.schedule import entry, program
from tests.schedules.machine import Fault, run

ORDERS = 2


def options() -> argparse.ArgumentParser:
    """What may be asked for on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks written", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="schedules: *.xml")
    return parser


def report(asked: argparse.Namespace) -> Iterator[str]:
    """Two lines for each file: theirs, ours."""
    files = sorted(asked.folder.glob("*.xml"))
    if not files:
        sys.exit(f"no *.xml in {asked.folder}: name a folder with schedules")
    yield f"{'file':<48}{'':>7}{'a rank':>8}{'a link':>8}{'blocks':>8}{'channels':>9}{'seconds':>9}  steps"
    faults = 0
    for file in files:
        text, begin = file.read_text(), process_time()
        try:
            ours = rewritten(text)
        except (ValueError, Rejected) as error:
            yield f"{file.name:<48} {error}"
            continue
        seconds = process_time() - begin
        yield f"{file.name:<48}{'theirs':>7}{line(counts(text), '')}"
        yield f"{'':<48}{'ours':>7}{line(counts(ours), f'{seconds:.1f}')}"
        try:
            for seed in range(ORDERS):
                run(ours, seed=seed)
        except Fault as fault:
            faults += 1
            yield f"{'':<48} wrong on the machine: {fault}"
    if faults:
        sys.exit(f"{faults} written, and wrong on the machine")


def rewritten(text: str) -> str:
    """The first use of a file, as we write it, at one element a chunk."""
    schedule = msccl.read(text)[0]
    problem, fields = entry(schedule, schedule.chunks)
    case = catalog.case(problem, fields, ranks=schedule.ranks, ranks_per_node=schedule.ranks)
    return write(program(schedule, catalog.build(case)))


def line(found: ScheduleCounts, seconds: str) -> str:
    """The figures of a file."""
    steps = ", ".join(f"{count} {operation}" for operation, count in sorted(found.steps.items()))
    moved = f"{found.volume:>8.3f}{found.busiest:>8.3f}"
    return f"{moved}{found.blocks:>8}{found.channels:>9}{seconds:>9}  {steps}"
