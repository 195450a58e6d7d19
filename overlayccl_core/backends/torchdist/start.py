"""What starts the ranks of launches: one process that imports all they need once, and forks them.

Run as `python -m`, it reads launches from standard input, a JSON object a line (the arguments of `main`, and the
file for all that is printed), and tells the number of the process of each and, when it has ended, how. As under
torchrun, the store in which ranks meet is that process's, on a port that nobody else has, and the first rank that
fails ends all others. torchrun would import everything once for each rank of each launch, which takes longer than
many a launch.
"""

import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

import torch.distributed as dist

from overlayccl_core.backends import processes

HOST = "127.0.0.1"
OTHERS_S = 0.2  # in which others may have ended by themselves, before they are ended
PATIENCE_S = 2.0  # with one that is told to end


def serve() -> None:
    """Begin each launch that standard input asks for, one after another, until it ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        with suppress(Exception):  # who needs it will say so
            resolve_name(asked["worker"])
        pid = os.fork() or _launch(**asked)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _launch(folder: str, ranks: int, worker: str, exit_codes: str, log: str) -> NoReturn:
    """The process of one launch."""
    code = 1
    try:
        processes.die_with_parent()
        with open(log, "ab") as printed, open(os.devnull, "rb") as nothing:
            for file, number in ((nothing, 0), (printed, 1), (printed, 2)):
                os.dup2(file.fileno(), number)
        code = main(Path(folder), ranks, worker, Path(exit_codes))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main(folder: Path, ranks: int, worker: str, exit_codes: Path) -> int:
    """Start the ranks and wait for them; 1 where some failed.

    exit_codes has those that did: {process id: code}, negative for a signal.
    """
    work = resolve_name(f"{worker}:main")
    with socket.create_server((HOST, 0)) as server:
        gc.freeze()  # what is here stays shared between the ranks
        running = {_start(work, folder, rank, ranks, server) for rank in range(ranks)}
        store = dist.TCPStore(
            HOST,
            server.getsockname()[1],
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=server.detach(),
        )
        failed = _first_failed(running)
    if failed:
        time.sleep(OTHERS_S)
        failed |= _ended(running)
        for pid, code in failed.items():
            print(f"process {pid} of a rank: exit code {code}")
        whole = exit_codes.with_suffix(".tmp")  # it is read while this process runs
        whole.write_text(json.dumps(failed))
        whole.replace(exit_codes)
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in running:
            os.kill(pid, how)
        end = time.monotonic() + PATIENCE_S
        while running and time.monotonic() < end:
            _ended(running)
            time.sleep(0.01)
    del store
    return int(bool(failed))


def _start(work: Callable[[Path], None], folder: Path, rank: int, ranks: int, server: socket.socket) -> int:
    """The process id of a rank that was started; the rank itself does not return."""
    if pid := os.fork():
        return pid
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(server.getsockname()[1]),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is not rank 0's
    }
    server.close()
    code = 1
    try:
        work(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _first_failed(running: set[int]) -> dict[int, int]:
    """Process id and exit code of the first rank that fails; none where all end well."""
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if code := os.waitstatus_to_exitcode(status):
            return {pid: code}
    return {}


def _ended(running: set[int]) -> dict[int, int]:
    """Those that ended meanwhile, and failed."""
    codes = {}
    for rank in tuple(running):
        pid, status = os.waitpid(rank, os.WNOHANG)
        if pid:
            running.discard(pid)
            codes[pid] = os.waitstatus_to_exitcode(status)
    return {pid: code for pid, code in codes.items() if code}


if __name__ == "__main__":
    serve()
