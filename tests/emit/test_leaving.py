"""Processes that used emitted code end as Python ends: no crash, whatever gloo's threads do last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from tests.emit.deployed_modules import entry, seed, write
from tests.emit.leaving_worker import RANKS

pytestmark = pytest.mark.ranks
LAUNCHES = 5  # of 12 scripts that kept the world's process group, 5 crashed
CASE = catalog.case("uniform_a2a", {"chunk": 3, "width": 4}, ranks=RANKS, ranks_per_node=RANKS)


@pytest.mark.parametrize(
    ("scenario", "launches"), [("deployed", LAUNCHES), ("destroyed", 1), ("worker", LAUNCHES)]
)
def test_ranks_leave_in_order_after_all_to_all(tmp_path: Path, scenario: str, launches: int) -> None:
    write(tmp_path, "uniform_a2a", [entry(CASE, "native")])
    (tmp_path / "emitted.py").write_text(emit(seed(CASE, "native")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.emit.leaving_worker", scenario, str(tmp_path), CASE.id, str(launches)],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [0] * RANKS * launches, done.stderr[-3000:]
