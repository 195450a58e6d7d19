"""The agent of a node: starts and watches the node's ranks of each requested launch.

A launcher (`launching/launchers/`) runs it as `python -m` on every node, with the address of the requester
(`nodes.py`). Without the requester it ends, and its ranks with it.
"""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import clock, fingerprint, processes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.launch import Launch, Starter, Starting, run
from overlayccl_core.launching.lines import Lines, LostError, Where, connected
from overlayccl_core.launching.local_ranks import ADDRESS, NODE, STATUS_FILE, TOKEN, LocalRanks
from overlayccl_core.launching.status import StatusFile
from overlayccl_core.tables.plain import of_data, plain

ALIVE_S = 1.0  # longest silence while ranks run
SEES_S = 30.0  # for a new folder of another node to appear here


class _BrokenOffError(Exception):
    """The requester cancelled the launch."""


class _Agent:
    """The connection to the requester."""

    def __init__(self, lines: Lines, address: str) -> None:
        self.lines = lines
        self.address = address
        self.number = 0  # of the launch
        self.clock: clock.Followed | None = None  # None: this host's own
        self.status: StatusFile | None = None
        self.told: NDArray[np.int64] | None = None
        self.told_at = 0.0
        self.all_done = False

    def serve(self) -> None:
        """Run launches until the requester is gone."""
        while True:
            asked = self.lines.receive(None)
            assert asked is not None
            if "launch" in asked:
                self.launch(asked)

    def launch(self, asked: Mapping[str, Any]) -> None:
        self.number, self.told, self.all_done = asked["number"], None, False
        self.clock = self.status = None
        here = Path(tempfile.mkdtemp(prefix="overlayccl-"))
        try:
            plan = of_data(Launch, asked["launch"])
            _see(plan.folder)
            server = self._clock_server(asked)
            part = of_data(
                LocalRanks,
                {
                    **asked["part"],
                    "status": str(here / STATUS_FILE),
                    "log": str(plan.folder / asked["log"]),
                    "clock_offset_ns": clock.offset_ns(*server, clock.QUESTIONS)[0] if server else 0,
                },
            )
            deployment = Deployment.from_json(asked["deployment"])
            backend = loader.load("backends", deployment.backend)
            starter: Starter = backend.starter(deployment, part.address)
            share = run(
                plan,
                starter,
                self._watch,
                part=part,
                begun=lambda starting: self._begun(part, starting, server),
                others_done=lambda: self.all_done,
            )
            self.say(ended=share)
        except _BrokenOffError:
            self.say(ended=0.0)
        except LaunchError as error:
            self.say(failed=plain(error))
        except LostError:
            raise
        except Exception as error:
            self.say(failed=plain(LaunchError(str(error), kind=Failure.LAUNCHER)))
        finally:
            shutil.rmtree(here, ignore_errors=True)

    def _clock_server(self, asked: Mapping[str, Any]) -> tuple[str, int] | None:
        """Return where to ask for the first node's time; None on the first node, or another agent of its kernel."""
        return (self.address, asked["clock"]) if asked["boot"] != clock.boot() else None

    def _begun(self, part: LocalRanks, starting: Starting, server: tuple[str, int] | None) -> None:
        """Report the ranks' start. Follow the clock from here on: drift during their start is no matter."""
        self.status = StatusFile.open(part.status, part.count)
        self.clock = clock.Followed(*server) if server else None
        self.say(port=starting.port)

    def _watch(self, rows: NDArray[np.int64]) -> None:
        if self.clock and self.status:
            self.clock.ask()
            self.status.clock_offset_ns = self.clock.offset_ns
        self._tell_rows(rows)
        while (message := self.lines.receive(0.0)) is not None:
            if "break off" in message:
                raise _BrokenOffError
            self.all_done = self.all_done or "all done" in message

    def _tell_rows(self, rows: NDArray[np.int64]) -> None:
        """Send the changed rows, or a sign of life."""
        changed = range(len(rows)) if self.told is None else np.flatnonzero((rows != self.told).any(axis=1))
        if len(changed) or time.monotonic() - self.told_at > ALIVE_S:
            self.say(rows=[[int(row), rows[row].tolist()] for row in changed])
            self.told_at = time.monotonic()
        self.told = rows

    def say(self, **told: Any) -> None:
        off_by_ns = self.clock.off_by_ns if self.clock else 0
        self.lines.send({"number": self.number, "clock_off_by_ns": off_by_ns, **told})


def _see(folder: Path) -> None:
    """Wait until a launch's folder is seen here; ValueError if it is not."""
    end = time.monotonic() + SEES_S
    while not folder.is_dir():
        if time.monotonic() > end:
            raise ValueError(
                f"it does not see {folder}: run from a folder that all nodes share (on ParallelCluster /fsx "
                f"or /home)"
            )
        time.sleep(0.1)


def main(where: Where) -> None:
    processes.die_with(os.getppid())
    lines = connected(where)
    lines.send(
        {
            "token": os.environ[TOKEN],
            "node": int(os.environ[NODE]),
            "host": socket.gethostname(),
            "address": os.environ.get(ADDRESS, ""),
            "parts": fingerprint.node_parts(),
        }
    )
    try:
        _Agent(lines, where[0]).serve()
    except LostError:
        return


if __name__ == "__main__":
    main((sys.argv[1], int(sys.argv[2])))
