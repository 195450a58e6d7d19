"""Scripts that used a deployed module end as Python ends: no crash, whatever gloo's threads do last."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core import catalog
from tests.emit.deployed_modules import entry, write
from tests.emit.leaving_worker import RANKS

pytestmark = pytest.mark.ranks
LAUNCHES = 5  # of 12 scripts that kept the world's process group, 5 crashed
CASE = catalog.case("uniform_a2a", {"chunk": 3, "width": 4}, ranks=RANKS, ranks_per_node=RANKS)


def exit_codes(folder: Path, scenario: str, launches: int) -> list[int]:
    """Of all ranks of all launches."""
    write(folder, "uniform_a2a", [entry(CASE, "native")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.emit.leaving_worker", scenario, str(folder), CASE.id, str(launches)],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stderr[-3000:])
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("scenario", "launches"), [("deployed", LAUNCHES), ("destroyed", 1)])
def test_a_script_leaves_in_order_after_all_to_all(tmp_path: Path, scenario: str, launches: int) -> None:
    assert exit_codes(tmp_path, scenario, launches) == [0] * RANKS * launches
