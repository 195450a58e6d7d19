"""A node's Trainium equipment: cores, EFA interfaces, and Neuron's packages."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.deployment import Deployment

NEURON = "neuron"
DEVICES = Path("/dev")
RDMA = Path("/sys/class/infiniband")  # EFA interfaces are there
CORES_A_DEVICE = 2  # of Trainium 1
PACKAGES = {  # Neuron SDK 2.28.0, src/helperscripts/n2-manifest.json; docs/install_neuron.sh installs them
    "aws-neuronx-dkms": "2.26.5",
    "aws-neuronx-runtime-lib": "2.30.51",
    "aws-neuronx-collectives": "2.30.59",
}
WHAT = {
    "aws-neuronx-dkms": "driver",
    "aws-neuronx-runtime-lib": "runtime",
    "aws-neuronx-collectives": "collectives",
}
ASKING_S = 20.0
Rows = list[dict[str, Any]]


def cores() -> int:
    """Return the number of NeuronCores of this host."""
    return CORES_A_DEVICE * len(list(DEVICES.glob("neuron[0-9]*")))


def rows(deployment: Deployment) -> Rows:
    """Report NeuronCores, Neuron's packages and EFA interfaces: rows of check, ok, detail."""
    if deployment.library != NEURON:
        return []
    there, ranks = cores(), deployment.ranks_per_node
    efa = len(list(RDMA.glob("*"))) if RDMA.is_dir() else 0
    enough, linked = there >= ranks, efa > 0 or deployment.nodes == 1
    take = "" if enough else ": install aws-neuronx-dkms, or take instances that have as many"
    link = "" if linked else ": set Efa: Enabled in the cluster's configuration, and a placement group"
    return [
        {"check": "NeuronCores", "ok": enough, "detail": f"{there} for {ranks} ranks{take}"},
        *(_package(name) for name in PACKAGES),
        {"check": "EFA", "ok": linked, "detail": f"{efa} interfaces{link}"},
    ]


def _package(name: str) -> dict[str, Any]:
    """Check the version of one of Neuron's packages; a version other than ours is reported, but no fault."""
    check, ours = f"Neuron {WHAT[name]}", PACKAGES[name]
    if shutil.which("dpkg-query") is None:
        return {"check": check, "ok": True, "detail": f"not known: no dpkg here to ask for {name}"}
    command = ["dpkg-query", "--show", "--showformat=${Version}", name]
    version = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_S).stdout.strip()
    if not version:
        return {"check": check, "ok": False, "detail": f"no {name}: docs/install_neuron.sh installs it"}
    other = "" if version.startswith(ours) else f"; SDK 2.28.0, as in envs/trn1.txt, has {ours}"
    return {"check": check, "ok": True, "detail": f"{name} {version}{other}"}
