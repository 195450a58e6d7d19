"""A node's equipment for ranks of torch.distributed: cores and memory, or GPUs, or devices of Trainium.

Only torch knows about GPUs; it is imported here, for nccl alone.
"""

from importlib import util
from pathlib import Path
from typing import NamedTuple

from overlayccl_core.backends.torch_ranks import host_memory
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.launcher import DoctorCheck

DEVICES = Path("/dev")  # of Trainium


class Torch(NamedTuple):
    """What torch has here for nccl.

    Attributes:
        built: Whether nccl is in it; not, if it is built for CPUs.
        gpus: How many it sees (CUDA_VISIBLE_DEVICES).
        usable: Whether the driver is new enough for its CUDA.
    """

    built: bool = False
    gpus: int = 0
    usable: bool = False


def of_torch() -> Torch:
    """Ask torch, without a context on any GPU."""
    if util.find_spec("torch") is None:
        return Torch()
    import torch

    built = torch.distributed.is_nccl_available()
    gpus = int(torch.cuda.device_count()) if built else 0
    return Torch(built=built, gpus=gpus, usable=gpus > 0 and torch.cuda.is_available())


def lacks_gpus(deployment: Deployment) -> str:
    """Return what this host lacks for a GPU under each rank, with the mend, in a clause; empty if nothing."""
    there, ranks = of_torch(), deployment.ranks_per_node
    if not there.built:
        return (
            "this torch is built without CUDA, and so without nccl: install one that is built with it "
            "(pytorch.org/get-started), or set library to gloo"
        )
    if not there.gpus:
        return (
            "torch sees no GPU: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES, in a job of Slurm at `gres` in the "
            "profile, or set library to gloo"
        )
    if not there.usable:
        return (
            f"torch sees {there.gpus} GPUs and cannot use them: install a driver that is new enough for CUDA "
            f"{cuda_version()}, or a torch for an older CUDA"
        )
    if there.gpus < ranks:
        fewer = f"set ranks to at most {there.gpus}" if there.gpus > 1 else "set library to gloo"
        return (
            f"nccl needs a GPU for each of the {ranks} ranks of a node, and torch sees {there.gpus}: {fewer}, or "
            "show it more (CUDA_VISIBLE_DEVICES, in a job of Slurm `gres` in the profile)"
        )
    return ""


def cuda_version() -> str:
    from torch import version

    return str(version.cuda or version.hip)


def checks(deployment: Deployment) -> list[DoctorCheck]:
    """Report cores for the ranks, and where their values are: the host's memory, GPUs, devices of Trainium."""
    usable = fingerprints.host_parts()["cores"]
    cores = f"{deployment.ranks_per_node} ranks on {usable} cores"
    if deployment.ranks_per_node > int(usable):
        cores += ": oversubscribed, start-up times contain the operating system's scheduler"
    found = [DoctorCheck("cpu", True, fingerprints.cpu_model()), DoctorCheck("cores", True, cores)]
    match deployment.library:
        case "gloo":
            found.append(host_memory.check(deployment))
        case "nccl":
            found += _of_gpus(deployment)
        case "neuron":
            found.append(_neuron_devices(deployment))
    return found


def _of_gpus(deployment: Deployment) -> list[DoctorCheck]:
    if lacking := lacks_gpus(deployment):
        return [DoctorCheck("gpus", False, lacking)]
    least, budget = least_memory_bytes(), deployment.memory_budget_bytes
    memory = f"{bytes_text(least)} on a GPU, {bytes_text(budget)} may be used by its rank"
    if budget > least:
        memory += f": {host_memory.LOWER_BUDGET}"
    return [
        DoctorCheck("gpus", True, f"{of_torch().gpus} for {deployment.ranks_per_node} ranks"),
        DoctorCheck("gpu memory", budget <= least, memory),
    ]


def least_memory_bytes() -> int:
    """Return the memory of the smallest GPU. It makes a context on it: for the doctor, not for a run."""
    import torch

    gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return min(int(gpu.total_memory) for gpu in gpus)


def _neuron_devices(deployment: Deployment) -> DoctorCheck:
    """Check for devices; how many ranks each has is a setting of the instance (logical cores)."""
    there = len(list(DEVICES.glob("neuron[0-9]*")))
    take = "" if there else ": install aws-neuronx-dkms, or take an instance of Trainium 2 or later"
    return DoctorCheck("Neuron devices", there > 0, f"{there} for {deployment.ranks_per_node} ranks{take}")
