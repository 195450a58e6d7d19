"""Launches on hosts whose clocks differ: ranks stamp on one clock, and what it may be off by is told.

All ranks are on this host, whose CLOCK_REALTIME they all see: against it the launch's clock is compared.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core.backends.rank import write_joining
from overlayccl_core.launching import nodes
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.node_report import CLOCK_LIMIT, NodeReport
from overlayccl_core.timing.batch import time_programs
from tests.launching.clock_worker import SECONDS
from tests.launching.test_clock import APART
from tests.launching.test_nodes import PLUGINS, launchers, two_nodes
from tests.timing.batches import batch, jobs

__all__ = ["launchers"]  # a fixture of every test here
pytestmark = pytest.mark.ranks
RATE = 2e-3  # far more than a real clock drifts: 8 ms in the seconds that a test lasts


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second node has a CLOCK_MONOTONIC that is 1000 s ahead: a namespace of its own."""
    if (done := subprocess.run([*APART, "true"], capture_output=True, text=True)).returncode:
        pytest.skip(f"no namespace of time can be made here: {done.stderr.strip()}")
    monkeypatch.setenv("OVERLAYCCL_TESTS_BEFORE", " ".join(APART))


@pytest.fixture
def drifting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second node's clock drifts."""
    path = os.pathsep.join([str(PLUGINS / "clocks"), *filter(None, [os.environ.get("PYTHONPATH")])])
    clock = f"OVERLAYCCL_TESTS_CLOCK='{time.monotonic_ns()} {RATE}'"
    monkeypatch.setenv("OVERLAYCCL_TESTS_BEFORE", f"env PYTHONPATH={path} {clock}")


def launch(folder: Path) -> tuple[NodeReport, float]:
    """(what was told, by how much in ns ranks of the second node were off at most, beyond doubt)."""
    write_joining(folder, two_nodes())
    nodes.run(
        two_nodes(), Launch(worker="tests.launching.clock_worker", folder=folder, ranks=4, names=("it",))
    )
    seen = [np.array(json.loads((folder / f"clock-{rank}.json").read_text())) for rank in range(4)]
    first = seen[0][seen[0][:, 1].argmin()]
    off = [np.abs(one[:, 0] - first[0]) - one[:, 1] - first[1] for one in seen[2:]]
    return NodeReport.read(folder), max(one.max() for one in off)


@pytest.mark.usefixtures("drifting")
def test_a_clock_that_drifts_is_followed_while_ranks_run(tmp_path: Path) -> None:
    told, off_ns = launch(tmp_path)
    assert off_ns <= told.clock_off_by_ns
    assert told.clock_off_by_ns < RATE * SECONDS * 1e9, "no better than had it been asked for once"


@pytest.mark.usefixtures("elsewhere")
def test_samples_are_right_and_tell_how_far_they_may_be_off(tmp_path: Path) -> None:
    said: list[str] = []
    timed = time_programs(batch(tmp_path, jobs(4), deployment=two_nodes()), said.append)
    shares = [one.clock_off_by_us / (min(one.samples_us) * one.repeats) for one in timed]
    assert any(f", {max(shares):.1%} of the shortest" in line for line in said) == (max(shares) > CLOCK_LIMIT)
    for one in timed:
        assert min(one.samples_us) > 0 and max(one.samples_us) < 5e6
        assert 0 < one.clock_off_by_us < 5e4 and one.nodes.startswith("2 alike: cpu ")


def test_on_one_clock_nothing_is_off(tmp_path: Path) -> None:
    told, off_ns = launch(tmp_path)
    assert told.clock_off_by_ns == 0 and off_ns <= 0
