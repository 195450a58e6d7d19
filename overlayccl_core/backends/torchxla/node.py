"""A node's Trainium equipment: cores, EFA interfaces, and Neuron's packages."""

import shutil
import subprocess
from pathlib import Path

from overlayccl_core.backends.torch_ranks import host_memory
from overlayccl_core.backends.torchxla.environment import STANDIN
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.launcher import DoctorCheck

NEURON = "neuron"
DEVICES = Path("/dev")
RDMA = Path("/sys/class/infiniband")  # EFA interfaces are there
CORES_A_DEVICE = 2  # of Trainium 1
PACKAGES = {  # Neuron SDK 2.28.0, src/helperscripts/n2-manifest.json; docs/install_neuron.sh installs them
    "aws-neuronx-dkms": ("driver", "2.26.5"),
    "aws-neuronx-runtime-lib": ("runtime", "2.30.51"),
    "aws-neuronx-collectives": ("collectives", "2.30.59"),
}
ASKING_S = 20.0


def cores() -> int:
    return CORES_A_DEVICE * len(list(DEVICES.glob("neuron[0-9]*")))


def checks(deployment: Deployment) -> list[DoctorCheck]:
    """Report NeuronCores, Neuron's packages and EFA interfaces; of the stand-in memory."""
    if deployment.library == STANDIN:
        return [host_memory.check(deployment)]
    if deployment.library != NEURON:
        return []
    there, ranks = cores(), deployment.ranks_per_node
    efa = len(list(RDMA.glob("*"))) if RDMA.is_dir() else 0
    enough, linked = there >= ranks, efa > 0 or deployment.nodes == 1
    take = "" if enough else ": install aws-neuronx-dkms, or take instances that have as many"
    link = "" if linked else ": set Efa: Enabled in the cluster's configuration, and a placement group"
    return [
        DoctorCheck("NeuronCores", enough, f"{there} for {ranks} ranks{take}"),
        *(_package(name, *of) for name, of in PACKAGES.items()),
        DoctorCheck("EFA", linked, f"{efa} interfaces{link}"),
    ]


def _package(name: str, what: str, ours: str) -> DoctorCheck:
    """Check the version of one of Neuron's packages; a version other than ours is reported, but no fault."""
    check = f"Neuron {what}"
    if shutil.which("dpkg-query") is None:
        return DoctorCheck(check, True, f"not known: no dpkg here to ask for {name}")
    command = ["dpkg-query", "--show", "--showformat=${Version}", name]
    version = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_S).stdout.strip()
    if not version:
        return DoctorCheck(check, False, f"no {name}: docs/install_neuron.sh installs it")
    other = "" if version.startswith(ours) else f"; SDK 2.28.0, as in envs/trn1.txt, has {ours}"
    return DoctorCheck(check, True, f"{name} {version}{other}")
