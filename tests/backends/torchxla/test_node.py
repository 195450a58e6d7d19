"""What the doctor says of a node: cores, packages of Neuron's, EFA, and the folder that nodes share."""

from pathlib import Path

import pytest

from overlayccl_core.backends import node_doctor
from overlayccl_core.backends.torchxla import backend, node
from overlayccl_core.configuration.deployment import load

ROOT = Path(__file__).parents[3]
TRN1 = load(ROOT / "config/deployments/trn1.yaml")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with 16 devices and 8 interfaces; packages are what `dpkg-query` there says."""
    for index in range(16):
        (tmp_path / f"dev/neuron{index}").mkdir(parents=True)
    for index in range(8):
        (tmp_path / f"rdma/{index}").mkdir(parents=True)
    monkeypatch.setattr(node, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(node, "RDMA", tmp_path / "rdma")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def says(host: Path, script: str) -> None:
    file = host / "bin/dpkg-query"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_versions_of_driver_runtime_and_collectives_are_told(host: Path) -> None:
    says(host, 'case "$3" in *dkms) echo -n 2.26.5.0;; *lib) echo -n 2.33.10.0;; *) exit 1;; esac')
    rows = {row.name: row for row in backend.host(TRN1)}
    assert rows["NeuronCores"].detail == "32 for 32 ranks" and rows["EFA"].detail == "8 interfaces"
    assert rows["Neuron driver"].ok and rows["Neuron driver"].detail == "aws-neuronx-dkms 2.26.5.0"
    assert rows["Neuron runtime"].ok and "has 2.30.51" in rows["Neuron runtime"].detail
    assert not rows["Neuron collectives"].ok
    assert "docs/install_neuron.sh" in rows["Neuron collectives"].detail


def test_they_are_those_that_a_node_of_the_cluster_installs() -> None:
    script = (ROOT / "docs/install_neuron.sh").read_text()
    assert all(f"'{name}={version}*'" in script for name, (_, version) in node.PACKAGES.items())


def test_a_file_that_was_just_made_must_be_seen_and_writable(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert not node_doctor.shared(made).ok
    assert "all nodes share" in node_doctor.shared(made).detail
    made.touch()
    row = node_doctor.shared(made)
    assert row.ok and str(tmp_path) in row.detail and made.read_text()
