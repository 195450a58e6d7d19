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
from overlayccl_core.launching.parts import TOKEN, Part

START = "overlayccl_core.backends.torch_ranks.start"
EXIT_CODES_FILE = "exit-codes.json"
OF_SCRIPTS = (
    "OVERLAYCCL_PLAIN",
    "OVERLAYCCL_CHECK",
)  # what is measured is the chosen way, and nothing beside it
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # whoever starts the launch may have set others


def starter(environment: Mapping[str, str]) -> Starter:
    """How ranks with such an environment are started here. Of a rank they get what `Part.environment` says, too."""
    return Starter(start=lambda plan, part: start(plan, part, environment), mark=START, exit_codes=exit_codes)


def rank_environment(usual: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    """Of all ranks: this process's, one thread each, what is `usual` where nobody has set it, and what the
    deployment says, whoever has."""
    own = {**ONE_THREAD, "PYTHONUNBUFFERED": "1"}
    environment = {**usual, **os.environ, **own, **deployment.environment}
    for name in (TOKEN, *OF_SCRIPTS):  # the token is of the agent that starts them
        environment.pop(name, None)
    return environment


def start(plan: Launch, part: Part, environment: Mapping[str, str]) -> "_Starting":
    """Begin a launch, from the process that began the ones before it."""
    wanted = (dict(environment), Path.cwd())
    server = getattr(_OF_THREAD, "server", None)
    if server is None or server.process.poll() is not None or server.made_for != wanted:
        server = _OF_THREAD.server = _Server(*wanted, part.log)
    return _Starting(server, plan, part)


_OF_THREAD = (
    threading.local()
)  # a process that is to die with its parent dies with the thread that started it


class _Server:
    """A process that runs `start`; it ends with this one.

    Its own errors are told in the log of the launch in which it ends: it imports what ranks need.
    """

    def __init__(self, environment: dict[str, str], folder: Path, log: Path) -> None:
        self.made_for = environment, folder
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process; never in a shared folder)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            env=environment, bufsize=0, start_new_session=True, preexec_fn=processes.with_me(),
        )  # fmt: skip
        log.touch()
        weakref.finalize(self, _end, self.process, self.errors)

    def ask(self, request: Mapping[str, object]) -> None:
        """Hand over a launch."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: so the next answer says
            self.process.stdin.write(json.dumps(request).encode() + b"\n")

    def answer(self, seconds: float | None) -> dict[str, Any] | None:
        """What it tells next, `ended` with its own end; None: nothing for so long (None: for ever)."""
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
    """The process of one launch, a child of the server's. port: of the store in which its ranks meet."""

    def __init__(self, server: _Server, plan: Launch, part: Part) -> None:
        self._server = server
        server.ask(
            {
                "folder": str(plan.folder),
                "worker": plan.worker,
                "imports": list(plan.imports),
                "part": part.to_json(),
                "exit_codes": str(_exit_codes_file(part)),
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
        """How it ended, negative for a signal; None: it runs."""
        return self._look(0)

    def wait(self) -> int:
        """How it ended, once it has."""
        ended = self._look(None)
        assert ended is not None
        return ended

    def _look(self, seconds: float | None) -> int | None:
        if self._ended is None and (told := self._server.answer(seconds)):
            self._ended = told["ended"]
        return self._ended


def exit_codes(part: Part) -> dict[int, int]:
    """What `start.main` knew of the ranks of a part when it ended."""
    file = _exit_codes_file(part)
    codes = json.loads(file.read_text()) if file.exists() else {}
    return {int(pid): code for pid, code in codes.items()}


def _exit_codes_file(part: Part) -> Path:
    return part.status.with_name(EXIT_CODES_FILE)
