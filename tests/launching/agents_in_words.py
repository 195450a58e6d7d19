"""Agents for tests of who asks for launches: each says what a script tells it to. No process, no rank."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from overlayccl_core.launching import agents, nodes
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.lines import Lines, LostError, Message, Where
from overlayccl_core.launching.local_ranks import LOOPBACK, TOKEN
from overlayccl_core.launching.status import Phase

RANKS = 4
ALIKE = {"cpu": "alike", "cores": "8"}
Script = Callable[["Agent"], None]


class Agent:
    """One end of a connection, with the words of an agent. asked: of the last launch."""

    def __init__(
        self, node: int, towards: Where, environment: Mapping[str, str], parts: Mapping[str, str]
    ) -> None:
        self.node = node
        self.lines = Lines(socket.create_connection(towards))
        self.lines.send(
            {"token": environment[TOKEN], "node": node, "host": f"n{node}", "address": "", "parts": parts}
        )
        self.asked: Message = {}

    def hear(self) -> Message:
        """What is said next."""
        said = self.lines.receive(20.0)
        assert said is not None
        return said

    def is_asked(self) -> None:
        """Wait for a launch; what comes before is of one that is over."""
        while "launch" not in self.asked or self.asked["number"] == self.number:
            self.asked = self.hear()
        self.number = self.asked["number"]

    number = 0

    def say(self, *, off_by_ns: int = 0, number: int | None = None, **told: Any) -> None:
        """Something of the launch."""
        self.lines.send({"number": number or self.number, "clock_off_by_ns": off_by_ns, **told})

    def begin(self, **told: Any) -> None:
        """Its ranks are started."""
        self.is_asked()
        self.say(port=4000 + self.node, **told)

    def finish(self) -> None:
        """Its ranks are done."""
        done = [1, Phase.DONE, -1, 9, 0, 0, 0]
        self.say(rows=[[row, done] for row in range(self.asked["part"]["count"])])

    def until(self, word: str) -> None:
        """Hear what is said until it is that."""
        while word not in self.hear():
            pass

    def launch(self, **told: Any) -> None:
        """All of one."""
        self.begin(**told)
        self.finish()
        self.until("all done")
        self.say(ended=0.125)


def nothing(_towards: Where) -> None:
    """Comes before agents."""


@contextmanager
def speaking(
    monkeypatch: pytest.MonkeyPatch,
    *scripts: Script,
    printed: bytes = b"",
    rails: int = 1,
    second_node: Mapping[str, str] = ALIKE,
    **before: Any,
) -> Iterator[list[tuple[str, int]]]:
    """Agents that follow scripts, one for each rail of a node; gives where they were told to connect.

    before: `first` and `second`, called with that address before any agent comes, and before the second node's.
    second_node: what its agent tells of it.
    """
    told: list[tuple[str, int]] = []

    def start(_: Any, towards: Where, environment: Mapping[str, str], out: BinaryIO) -> Any:
        told.append(towards)
        out.write(printed)
        out.flush()
        before.get("first", nothing)(towards)
        for node, script in enumerate(scripts):
            threading.Thread(target=follow, args=(node, script, towards, environment), daemon=True).start()
        return subprocess.Popen(["sleep", "60"])

    def follow(node: int, script: Script, towards: Where, environment: Mapping[str, str]) -> None:
        if node:
            before.get("second", nothing)(towards)
        agent = Agent(node, towards, environment, second_node if node else ALIKE)
        with suppress(LostError, ValueError):  # ValueError: it has hung up itself
            script(agent)
            while True:  # until nobody asks any more
                agent.hear()
        agent.lines.close()

    launcher = SimpleNamespace(start=start, address=lambda _: LOOPBACK, rails=lambda _: rails)
    monkeypatch.setattr(agents, "launcher_of", lambda _: launcher)
    yield told
    if (held := getattr(nodes._OF_THREAD, "agents", None)) is not None:
        held.end()


def asked(folder: Path) -> Launch:
    """A launch of all ranks."""
    return Launch(worker="nobody.runs.it", folder=folder, ranks=RANKS)
