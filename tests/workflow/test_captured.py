"""A captured step through the whole pipeline: recorded on two ranks, proven, timed, deployed, verified."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from overlayccl_core.configuration.captured import KEPT
from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(600)]
SCRIPT = "examples/scripts/tensor_parallel.py"
TREE = "results/local-2-calls"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config/config.yaml"
    config = yaml.safe_load(file.read_text())
    few = {name: SMALL[name] for name in ("probe", "bench", "fit", "confirm")}
    file.write_text(yaml.safe_dump(config | few | {"presets": config["presets"] | {"tune": {}}}))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    capture = [sys.executable, "-P", "-m", "overlayccl_core.cli.main", "--root", str(root), "capture", "--"]
    command = [*capture, *torchrun, "--nproc-per-node", "2", SCRIPT]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--config captured=calls.parquet deployment=local-2" in done.stdout
    config = ("captured=calls.parquet", "deployment=local-2")
    done = snakemake(root, "--profile", "local", "all", "archive", "--config", *config)
    assert done.returncode == 0, done.stderr
    (root / "said.txt").write_text(done.stdout)
    return root


def test_its_calls_are_proven_timed_and_deployed(finished: Path) -> None:
    deployed = json.loads((finished / TREE / "deploy/captured.json").read_text())["deployed"]
    cases = {"captured/n2-all_reduce_sum-16384-f32": True, "captured/n2-c8-512KiB-62d4d5-f32": True}
    assert {row["case"]: bool(row["chosen"]["measured_us"]) for row in deployed} == cases
    assert (finished / TREE / "deploy/captured.py").is_file()
    assert (finished / TREE / KEPT).read_bytes() == (finished / "calls.parquet").read_bytes()
    assert f"overlayccl capture --compare {TREE}" in (finished / "said.txt").read_text()
    assert "tensor_parallel.py:" in (finished / TREE / "report.html").read_text()


def test_its_archive_is_verified_by_a_stranger(finished: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "overlayccl_core.cli.main",
        "verify",
        str(finished / f"{TREE}.tar.zst"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken as said" in done.stdout
