"""Start the ranks of launches on a host: one process imports their modules once, and forks them.

Run as `python -m`, it reads launches from standard input, a JSON object a line, and answers with lines of JSON:
first the process id of the launch and the port of its store, at its end the exit code. As under torchrun, the store
where ranks meet belongs to that process, on a free port, and the first rank to fail ends all others of the host.
torchrun would import everything once for each rank of each launch; that takes longer than many launches.
"""

import gc
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

import torch.distributed as dist

from overlayccl_core.launching import processes
from overlayccl_core.launching.local_ranks import LocalRanks
from overlayccl_core.launching.status import Phase, StatusFile
from overlayccl_core.tables.plain import of_data

OTHERS_S = 0.2  # for other failing ranks to end by themselves, before they are ended
FILES = 65536  # Neuron, setup-trn1-multi-node-execution: connections of a rank to all others are files
PATIENCE_S = 2.0  # after a signal to end


def serve() -> None:
    """Begin each launch requested on standard input, one after another, until it ends."""
    many_files()
    for line in sys.stdin:
        asked = json.loads(line)
        part = of_data(LocalRanks, asked["part"])
        for module in (asked["worker"], *asked["imports"]):
            with suppress(Exception):  # the importing rank reports it
                resolve_name(module)
        another_host_has_the_store = bool(part.port)
        server = None if another_host_has_the_store else socket.create_server((part.address, 0))
        me = os.getpid()
        pid = os.fork() or _launch(asked, part, server, me)
        _answer(pid=pid, port=server.getsockname()[1] if server else part.port)
        if server:
            server.close()
        _, status = os.waitpid(pid, 0)
        _answer(ended=os.waitstatus_to_exitcode(status))


def many_files() -> None:
    """Raise the limit of open files to FILES or the host's maximum: Slurm brings a login shell's low limit."""
    few, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if allowed == resource.RLIM_INFINITY else min(FILES, allowed)
    if few != resource.RLIM_INFINITY and few < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, allowed))


def _answer(**told: int) -> None:
    print(json.dumps(told), flush=True)


def _launch(
    asked: Mapping[str, Any], part: LocalRanks, server: socket.socket | None, parent: int
) -> NoReturn:
    code = 1
    try:
        processes.die_with(parent)
        with part.log.open("ab") as printed, open(os.devnull, "rb") as nothing:
            for file, number in ((nothing, 0), (printed, 1), (printed, 2)):
                os.dup2(file.fileno(), number)
        code = main(Path(asked["folder"]), part, asked["worker"], Path(asked["exit_codes"]), server)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main(folder: Path, part: LocalRanks, worker: str, exit_codes: Path, server: socket.socket | None) -> int:
    """Start the ranks of a part and wait for them; return 1 if some failed.

    Args:
        exit_codes: File for the failed ranks: {process id: code}, negative for a signal.
        server: Socket for the store.
    """
    work = resolve_name(f"{worker}:main")
    port = server.getsockname()[1] if server else part.port
    gc.freeze()  # objects so far stay shared between the ranks
    running = {
        _start(work, folder, part.environment(local_rank, port), server) for local_rank in range(part.count)
    }
    store = _store(server) if server else None
    failed = _first_failed(running, part)
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


def _store(server: socket.socket) -> dist.TCPStore:
    """Make the store where ranks meet; it belongs to this process, as long as it is kept."""
    address, port = server.getsockname()
    return dist.TCPStore(
        address, port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach()
    )


def _start(
    work: Callable[[Path], None], folder: Path, environment: Mapping[str, str], server: socket.socket | None
) -> int:
    """Fork a rank and return its process id; in the rank itself it does not return."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        processes.die_with(parent)
        os.environ |= environment
        if server:
            server.close()
        work(folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _first_failed(running: set[int], part: LocalRanks) -> dict[int, int]:
    """Return process id and exit code of the first failed rank; empty if all end well.

    An abort after the rank has reported its end is no failure: some libraries' destructors abort.
    """
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if (code := os.waitstatus_to_exitcode(status)) and not _was_done(pid, part):
            return {pid: code}
    return {}


def _was_done(pid: int, part: LocalRanks) -> bool:
    if not part.status.exists():
        return False
    rows = StatusFile.open(part.status, part.count).snapshot()
    return bool((rows[rows[:, StatusFile.PID] == pid, StatusFile.PHASE] == Phase.DONE).any())


def _ended(running: set[int]) -> dict[int, int]:
    """Return process ids and exit codes of further ranks that have ended with a failure."""
    codes = {}
    for rank in tuple(running):
        pid, status = os.waitpid(rank, os.WNOHANG)
        if pid:
            running.discard(pid)
            codes[pid] = os.waitstatus_to_exitcode(status)
    return {pid: code for pid, code in codes.items() if code}


if __name__ == "__main__":
    serve()
