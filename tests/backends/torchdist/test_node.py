"""What the doctor says of a node for nccl and for TorchNeuron: each lack once, in one line with its mend."""

import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.backends.torchdist import backend, node
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sizes import GIB

DEPLOYMENTS = Path(__file__).parents[3] / "config/deployments"
NCCL, NODES, TRN2 = (load(DEPLOYMENTS / f"{name}.yaml") for name in ("nccl-8", "slurm-gpu", "trn2"))
NO_CUDA = node.Torch()
NO_GPU = node.Torch(built=True)
OLD_DRIVER = node.Torch(built=True, gpus=8)
FEW = node.Torch(built=True, gpus=4, usable=True)
ENOUGH = node.Torch(built=True, gpus=8, usable=True)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (NO_CUDA, "built without CUDA.*: install one"),
        (NO_GPU, "sees no GPU: .*nvidia-smi.*CUDA_VISIBLE_DEVICES.*gres"),
        (OLD_DRIVER, "cannot use them: install a driver"),
        (FEW, "each of the 8 ranks .*sees 4: set ranks to at most 4, or .*gres"),
        (FEW._replace(gpus=1), "sees 1: set library to gloo"),
    ],
)
def test_a_lack_of_gpus_is_one_line_with_its_mend(
    there: node.Torch, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "of_torch", lambda: there)
    [row] = [row for row in backend.host(NCCL) if not row.ok]
    assert row.name == "gpus" and re.search(told, row.detail) and "\n" not in row.detail
    assert backend.refuses(NCCL) == f"deployment nccl-8: {row.detail}"
    assert not backend.refuses_library(NODES), "a head node needs none"


def test_gpus_are_counted_and_their_memory_holds_what_a_rank_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "of_torch", lambda: ENOUGH)
    monkeypatch.setattr(node, "least_memory_bytes", lambda: 80 * GIB)
    rows = {row.name: row for row in backend.host(NCCL)}
    assert rows["gpus"] == ("gpus", True, "8 for 8 ranks") and rows["gpu memory"].ok
    assert "memory" not in rows, "values are on GPUs, and not in the host's memory"
    assert not backend.refuses(NCCL)
    small = NCCL.changed(memory_budget_bytes=100 * GIB)
    [row] = [row for row in backend.host(small) if not row.ok]
    assert row.name == "gpu memory" and "80GiB" in row.detail and "lower memory_budget" in row.detail


def test_torch_is_asked_as_it_is_here() -> None:
    """On any machine: what torch says of itself fits together."""
    import torch

    told = node.of_torch()
    assert told.built is torch.distributed.is_nccl_available()
    assert told.gpus == torch.cuda.device_count() * told.built
    assert not told.usable or told.gpus > 0


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (None, "needs torch-neuronx of TorchNeuron, which this Python does not have"),
        ("2.9.0.2.15.32035", "torch-neuronx 2.9.0.2.15.32035 is of PyTorch/XLA: install 2.13"),
        ("2.13.3.0", ""),
        ("2.14.3.0", ""),
    ],
)
def test_torchneuron_is_told_from_the_older_package_of_its_name(
    version: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    assert told in backend.refuses_library(TRN2) and bool(told) is bool(backend.refuses_library(TRN2))


@pytest.mark.parametrize("devices", [0, 16])
def test_devices_of_trainium_are_counted(
    devices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(devices):
        (tmp_path / f"neuron{index}").touch()
    monkeypatch.setattr(node, "DEVICES", tmp_path)
    rows: dict[str, Any] = {row.name: row for row in backend.host(TRN2)}
    assert rows["Neuron devices"].ok is bool(devices)
    assert rows["Neuron devices"].detail.startswith(f"{devices} for 64 ranks")
