"""The example of a training script of one's own, run as a person would run it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from tests.emit.deployed_modules import entry, write

pytestmark = pytest.mark.ranks
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_training.py"


def test_the_example_trains_where_nothing_of_ours_is(tmp_path: Path) -> None:
    """One sum a layer, forward and backward; the first layer's input needs no gradient, so no sum of it."""
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "overlayccl_core.py").write_text("raise ImportError('the example needs a module, not us')\n")
    deployment = load("config/deployments/local.yaml")
    cases = cases_of_model(
        models.load("nano"), deployment, microbatches=4
    ).values()  # as `make run` leaves them
    write(tmp_path, "tp_mlp", [entry(case, "merged_over_microbatches") for case in cases])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    quiet = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(tmp_path)}
    quiet["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # else torch loads what of ours is installed
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "4", EXAMPLE.name],
        cwd=tmp_path, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 10 and losses[-1] < 0.5 * losses[0]
    assert "step 9" in done.stdout and "sums {'all_reduce': 80} {'all_reduce': 70}" in done.stdout
