"""Ranks that end as Python ends: `python -m tests.emit.leaving_worker SCENARIO FOLDER CASE LAUNCHES`.

All ranks are forked from one process that has torch already, so ten launches take seconds. It prints the exit codes
of all ranks of all launches.
"""

import gc
import json
import os
import socket
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.torch_ranks import driver

RANKS = 4
CALLS = 20
SIZE = (12, 4)
held: list[Any] = []  # what a script keeps to its end


def deployed(folder: Path, case: str) -> None:
    """A script that uses a deployed module, destroys the process group, and ends at once."""
    dist.init_process_group("gloo")
    module = driver.load_module(folder / "uniform_a2a.py", "uniform_a2a")
    held.append(module.connect(case))
    for _ in range(CALLS):
        held[0].group(0)([torch.ones(SIZE)])
    for _ in range(CALLS):  # works that nobody waits for
        dist.all_to_all_single(torch.empty(SIZE), torch.ones(SIZE), async_op=True)
    dist.destroy_process_group()


def destroyed(folder: Path, case: str) -> None:
    """The same with process groups of the script's own: none is left, and a call says what to do."""
    dist.init_process_group("gloo")
    module = driver.load_module(folder / "uniform_a2a.py", "uniform_a2a")
    held.append(module.connect(case))
    held.append(module.connect(case, new_group=lambda ranks: dist.new_group(list(ranks))))
    held[1].selftest()
    groups = weakref.WeakSet(dist.distributed_c10d._world.pg_names)
    gc.collect()
    gc.disable()
    for connected in held:
        connected.group(0)([torch.ones(SIZE)])
    dist.destroy_process_group()
    if len(groups):
        raise SystemExit(f"{len(groups)} process groups outlive destroy_process_group()")
    for connected in held:
        refused(lambda connected=connected: connected.group(0)([torch.ones(SIZE)]))


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except RuntimeError as error:
        if "connect again" in str(error):
            return
    raise SystemExit("a call after destroy_process_group() does not say what to do")


def main(scenario: str, folder: Path, case: str, launches: int) -> None:
    """Fork the ranks of every launch, one launch after the other."""
    torch.set_num_threads(1)
    codes = []
    for _ in range(launches):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS))
        pids = []
        for index in range(RANKS):
            if not (pid := os.fork()):
                os.environ["RANK"] = str(index)
                return {"deployed": deployed, "destroyed": destroyed}[scenario](folder, case)
            pids.append(pid)
        codes += [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    print(json.dumps(codes))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
