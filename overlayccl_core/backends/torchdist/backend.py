"""The torch.distributed backend: real processes, gloo on CPUs and nccl on GPUs.

This file imports no torch: ranks do.
"""

from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

from overlayccl_core.backends.rank import Rank
from overlayccl_core.backends.torch_ranks.torch_backend import (
    NOT_INSTALLED,
    cannot_train,
    doctor,
    fingerprint,
    refuses,
    run_once,
    starter,
    time_launch,
    train,
)
from overlayccl_core.backends.torchdist.environment import environment, environment_parts
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit import torch_dialect
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.launcher import DoctorCheck
from overlayccl_core.program.program import Program

__all__ = ["cannot_train", "doctor", "fingerprint", "refuses"]  # shared members of the protocol
__all__ += ["run_once", "starter", "time_launch", "train"]
__all__ += ["environment", "environment_parts"]
REQUIRES = ("torch",)
FRAMEWORK_ARMS = True
LIBRARIES = {
    "gloo": "on CPUs",
    "nccl": "a GPU for each rank",
    "neuron": "a NeuronCore for each rank, with TorchNeuron; it has never been run",
}
NEURON = "torch-neuronx"  # TorchNeuron: torch.distributed on Trainium 2 and later
ON_CPUS = {"gloo": ""}
IMPORTS = ("overlayccl_core.backends.torchdist.frameworks",)
VERSIONS = ("torch", "nccl", NEURON)  # a fingerprint names those in use; deployed modules compare them
CALLS = "overlayccl_core.backends.torchdist.calls"  # printed into modules


def emit(program: Program) -> str:
    return torch_dialect.emit(program, calls=CALLS)


def versions(deployment: Deployment) -> dict[str, str]:
    """Return the VERSIONS in use with the library; gloo is torch's own."""
    if util.find_spec("torch") is None:
        return {"torch": f"{NOT_INSTALLED}: run `make`"}
    torch = {"torch": metadata.version("torch")}
    if deployment.library == "neuron":
        return {**torch, NEURON: metadata.version(NEURON) if _has_neuron() else NOT_INSTALLED}
    return {**torch, "nccl": _nccl_version()} if deployment.library == "nccl" else torch


def refuses_library(deployment: Deployment) -> str:
    library, ranks = deployment.library, deployment.ranks_per_node
    if library not in LIBRARIES:
        known = ", ".join(f"{name} ({needs})" for name, needs in LIBRARIES.items())
        return (
            f"deployment {deployment.name}: backend {deployment.backend} knows no library {library!r}: "
            f"set library to one of {known}"
        )
    if deployment.uniform:
        return f"deployment {deployment.name}: backend {deployment.backend} compiles nothing: set uniform to false"
    if library == "neuron" and not _has_neuron():
        return (
            f"deployment {deployment.name}: library neuron needs {NEURON} of TorchNeuron, which this Python does "
            "not have: install it there (Trainium 2 and later), or set library to gloo"
        )
    if library == "nccl" and deployment.nodes == 1 and (gpus := _gpus()) < ranks:
        fewer = f"ranks to at most {gpus}, or " if gpus > 1 else ""
        return (
            f"deployment {deployment.name}: nccl needs a GPU for each of the {ranks} ranks of a node, and torch "
            f"has {gpus} here: set {fewer}library to gloo"
        )
    return ""


def patience(_deployment: Deployment) -> float:
    """Return 1: nothing is compiled in a step."""
    return 1.0


def _has_neuron() -> bool:
    return util.find_spec("torch_neuronx") is not None


def _gpus() -> int:
    """Return the number of GPUs usable by nccl. Only torch knows; it is imported here, for nccl alone."""
    if util.find_spec("torch") is None:
        return 0
    import torch

    return int(torch.cuda.device_count()) if torch.distributed.is_nccl_available() else 0


def _nccl_version() -> str:
    """Return nccl's version as deployed modules find it (`calls.found`); a plan's torch may have none."""
    from torch.cuda import nccl

    try:
        return ".".join(map(str, nccl.version()))
    except AttributeError:
        return NOT_INSTALLED


def needs_cores(_deployment: Deployment) -> bool:
    """Return True: each rank has a computing thread."""
    return True


def host(deployment: Deployment) -> list[DoctorCheck]:
    """Report cores for the ranks, with nccl also GPUs."""
    usable = fingerprints.host_parts()["cores"]
    cores = f"{deployment.ranks_per_node} ranks on {usable} cores"
    if deployment.ranks_per_node > int(usable):
        cores += ": oversubscribed, start-up times contain the operating system's scheduler"
    checks = [DoctorCheck("cpu", True, fingerprints.cpu_model()), DoctorCheck("cores", True, cores)]
    if deployment.library == "nccl":
        gpus = _gpus()
        checks.append(DoctorCheck("gpus", gpus >= deployment.ranks_per_node, f"{gpus} of nccl"))
    return checks


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    from overlayccl_core.backends.torchdist import rank

    rank.run_rank(folder, library, work)
