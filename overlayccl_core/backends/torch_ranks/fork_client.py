"""Ask the process that starts ranks on this host (`start`) for a launch."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import processes
from overlayccl_core.launching.launch import Launch, Starter
from overlayccl_core.launching.local_ranks import TOKEN, LocalRanks
from overlayccl_core.tables.plain import plain

START = "overlayccl_core.backends.torch_ranks.fork_server"
EXIT_CODES_FILE = "exit-codes.json"
OF_SCRIPTS = ("OVERLAYCCL_PLAIN", "OVERLAYCCL_CHECK")  # only the chosen way is measured
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # the caller may have set others


def starter(environment: Mapping[str, str]) -> Starter:
    """Return the Starter of ranks with this environment, plus `LocalRanks.environment` of each rank.

    Its process begins now: it imports torch while the caller prepares the launch.
    """
    _server_of(environment)
    return lambda plan, part: start(plan, part, environment)


def rank_environment(usual: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    """Return the environment of all ranks; later settings win.

    The order: `usual`, this process's environment, one thread each, the deployment's environment.
    """
    own = {**ONE_THREAD, "PYTHONUNBUFFERED": "1"}
    environment = {**usual, **os.environ, **own, **deployment.environment}
    for name in (TOKEN, *OF_SCRIPTS):  # the token belongs to the starting agent
        environment.pop(name, None)
    return environment


def start(plan: Launch, part: LocalRanks, environment: Mapping[str, str]) -> "_Starting":
    """Begin a launch in the server process of this environment."""
    part.log.touch()
    return _Starting(_server_of(environment), plan, part)


def _server_of(environment: Mapping[str, str]) -> "_Server":
    """Return the server process of this thread if it lives and has this environment, else a new one."""
    wanted = (dict(environment), Path.cwd())
    server: _Server | None = getattr(_OF_THREAD, "server", None)
    if server is None or server.process.poll() is not None or server.made_for != wanted:
        server = _OF_THREAD.server = _Server(*wanted)
    return server


_OF_THREAD = threading.local()  # a process set to die with its parent dies with the starting thread


class _Server:
    """A process running `start`; it ends with this one.

    It imports the ranks' modules, so its own errors go to the log of the launch in which it ends.
    """

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.made_for = environment, folder
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process; never in a shared folder)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env=environment, bufsize=0, start_new_session=True, preexec_fn=processes.with_me(),
        )  # fmt: skip
        weakref.finalize(self, _end, self.process, self.errors)

    def ask(self, request: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: the next answer reports it
            self.process.stdin.write(json.dumps(request).encode() + b"\n")

    def answer(self, seconds: float | None) -> dict[str, Any] | None:
        """Return its next answer, `ended` at its own end; None after `seconds` of silence (None: wait for ever)."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = self.process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"ended": self.process.wait() or 1}
        return told


def _end(process: "subprocess.Popen[bytes]", errors: BinaryIO) -> None:
    process.kill()
    process.communicate()
    errors.close()


class _Starting:
    """The process of one launch, a child of the server's. port: of the store where its ranks meet."""

    mark = START

    def __init__(self, server: _Server, plan: Launch, part: LocalRanks) -> None:
        self._server = server
        self._exit_codes = part.status.with_name(EXIT_CODES_FILE)
        server.ask(
            {
                "folder": str(plan.folder),
                "worker": plan.worker,
                "imports": list(plan.imports),
                "part": plain(part),
                "exit_codes": str(self._exit_codes),
            }
        )
        told = server.answer(None) or {}
        self._ended: int | None = told.get("ended")
        self.pid: int = told.get("pid", server.process.pid)
        self.port: int = told.get("port", part.port)
        if self._ended is not None:
            server.errors.seek(0)
            part.log.write_bytes(server.errors.read())

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self) -> int:
        ended = self._look(None)
        assert ended is not None
        return ended

    def _look(self, seconds: float | None) -> int | None:
        if self._ended is None and (told := self._server.answer(seconds)):
            self._ended = told["ended"]
        return self._ended

    def exit_codes(self) -> dict[int, int]:
        """Return the exit codes of failed ranks, as written by `fork_server.main`."""
        codes = json.loads(self._exit_codes.read_text()) if self._exit_codes.exists() else {}
        return {int(pid): code for pid, code in codes.items()}
