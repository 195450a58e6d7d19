"""Confined processes that are forked from one which has imported all: each as much alone, and started at once."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO

import pytest

from overlayccl_core.sandbox import tracing

_SERVE = "import sys; sys.path += sys.argv[2:]; from tests.sandbox.serving import serve; exec(serve())"


def fork_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `trace_confined` fork what it would start; tests/sandbox/test_tracing.py starts some for real."""
    monkeypatch.setattr(tracing, "_process", _process)


def cpu_s() -> float:
    """Seconds of CPU of this process and of those that it has waited for."""
    return sum(os.times()[:4]) + _Forked.cpu_s


class _Forked:
    """What is used of a Popen. cpu_s: of all that have ended."""

    cpu_s = 0.0

    def __init__(self, asked: IO[bytes], complaints: IO[bytes], folder: str) -> None:
        out, into = os.pipe()
        self.stdout = os.fdopen(out, "rb")
        self.code: int | None = None
        words = json.dumps([tracing._COMMAND, folder]).encode()
        socket.send_fds(_server(), [words], [asked.fileno(), into, complaints.fileno()])
        os.close(into)
        self.pid = int(_server().recv(99))

    def wait(self, timeout: float | None = None) -> int:
        if self.code is None:
            if not select.select([_server()], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked", timeout or 0)
            code, used_s = _server().recv(99).split()
            self.code, _Forked.cpu_s = int(code), _Forked.cpu_s + float(used_s)
        return self.code

    def kill(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)  # who has ended is not waited for before its code is sent
            self.wait()


@contextmanager
def _process(asked: IO[bytes], complaints: IO[bytes]) -> Iterator[_Forked]:
    with tempfile.TemporaryDirectory() as folder:
        process = _Forked(asked, complaints, folder)
        with process.stdout:
            try:
                yield process
            finally:
                process.kill()


@cache
def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks, and the way to it; it ends when that is closed."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _SERVE, str(its.fileno()), *tracing._PATHS]
    with its:
        return ours, subprocess.Popen(command, pass_fds=[its.fileno()], env=tracing._ENVIRONMENT)


def _server() -> socket.socket:
    return _started()[0]
