"""Launch ranks (`start`), watched as all launches are."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends import processes
from overlayccl_core.backends.launch import LOG_FILE, Launch, LaunchError, Starter, Watch, no_watch, run

__all__ = ["Launch", "LaunchError", "environment", "environment_parts", "launch"]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # whoever starts the launch may have set others
USUAL = {"GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # unless the caller sets something else
SPEED = (*fingerprints.SPEED, "ATEN_", "CUDA_", "DNNL_", "GLOO_", "NCCL_", "ONEDNN_", "PYTORCH_", "TORCH_")

START = "overlayccl_core.backends.torchdist.start"
EXIT_CODES_FILE = "exit-codes.json"


def launch(plan: Launch, watch: Watch = no_watch) -> float:
    """Run the ranks to their end (`backends.launch.run`: what it gives, errors too)."""
    return run(plan, Starter(start=start, mark=START, exit_codes=_exit_codes), watch)


def start(plan: Launch) -> "_Starting":
    """Begin a launch, from the process that began the ones before it."""
    wanted = (environment(), Path.cwd())
    server = getattr(_OF_THREAD, "server", None)
    if server is None or server.process.poll() is not None or server.made_for != wanted:
        server = _OF_THREAD.server = _Server(*wanted, plan.folder / LOG_FILE)
    return _Starting(server, plan)


_OF_THREAD = (
    threading.local()
)  # a process that is to die with its parent dies with the thread that started it


class _Server:
    """A process that runs `start`; it ends with this one.

    Its own errors go to the log of the launch that it was started for: it imports what ranks need.
    """

    def __init__(self, environment: dict[str, str], folder: Path, log: Path) -> None:
        self.made_for = environment, folder
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env=environment, bufsize=0, start_new_session=True, preexec_fn=processes.die_with_parent,
            )  # fmt: skip
        weakref.finalize(self, _end, self.process)

    def ask(self, request: Mapping[str, object]) -> None:
        """Hand over a launch."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: so the next answer says
            self.process.stdin.write(json.dumps(request).encode() + b"\n")

    def answer(self, seconds: float | None) -> int | None:
        """The next number that it tells; how it ended, if it does; None: nothing for so long (None: for ever)."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = self.process.stdout.readline()
        return int(line) if line else self.process.wait() or 1


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


class _Starting:
    """The process of one launch, a child of the server's."""

    def __init__(self, server: _Server, plan: Launch) -> None:
        self._server = server
        server.ask(
            {
                "folder": str(plan.folder),
                "ranks": plan.ranks,
                "worker": plan.worker,
                "exit_codes": str(plan.folder / EXIT_CODES_FILE),
                "log": str(plan.folder / LOG_FILE),
            }
        )
        self._ended: int | None = None
        self.pid = self._told(server.answer(None))

    def _told(self, pid: int | None) -> int:
        if self._server.process.poll() is not None:
            self._ended = self._server.process.returncode or 1
        return pid if pid is not None and self._ended is None else self._server.process.pid

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None: it runs."""
        if self._ended is None:
            self._ended = self._server.answer(0)
        return self._ended

    def wait(self) -> int:
        """How it ended, once it has."""
        if self._ended is None:
            self._ended = self._server.answer(None)
        assert self._ended is not None
        return self._ended


def environment() -> dict[str, str]:
    """Of the ranks: one thread each; the interface of this machine, so that no name has to be resolved."""
    package_root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([package_root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**USUAL, **os.environ, **ONE_THREAD, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def environment_parts() -> dict[str, str]:
    """The part of a fingerprint that tells what is set here and reaches the ranks."""
    return fingerprints.environment_parts(environment(), SPEED, {**USUAL, **ONE_THREAD})


def _exit_codes(plan: Launch) -> dict[int, int]:
    """What `start.main` knew of the ranks when it ended."""
    file = plan.folder / EXIT_CODES_FILE
    codes = json.loads(file.read_text()) if file.exists() else {}
    return {int(pid): code for pid, code in codes.items()}
