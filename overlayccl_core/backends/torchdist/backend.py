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
from overlayccl_core.backends.torchdist import node
from overlayccl_core.backends.torchdist.environment import environment, environment_parts
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit import torch_dialect
from overlayccl_core.launching.launcher import launcher_of
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
FIRST_NATIVE = (2, 13)  # version of that package; before, it was PyTorch/XLA's
ON_CPUS = {"gloo": ""}
IMPORTS = ("overlayccl_core.backends.torchdist.frameworks",)
VERSIONS = ("torch", "nccl", NEURON)  # a fingerprint names those in use; deployed modules compare them
COMPILING = 60.0  # our guess of an upper limit: step that compiles over one that does not
CALLS = "overlayccl_core.backends.torchdist.calls"  # printed into modules


def emit(program: Program) -> str:
    return torch_dialect.emit(program, calls=CALLS)


def versions(deployment: Deployment) -> dict[str, str]:
    """Return the VERSIONS in use with the library; gloo is torch's own."""
    if util.find_spec("torch") is None:
        return {"torch": f"{NOT_INSTALLED}: run `make`"}
    torch = {"torch": metadata.version("torch")}
    if deployment.library == "neuron":
        return {**torch, NEURON: _neuron_version() or NOT_INSTALLED}
    return {**torch, "nccl": _nccl_version()} if deployment.library == "nccl" else torch


def refuses_library(deployment: Deployment) -> str:
    library = deployment.library
    if library not in LIBRARIES:
        known = ", ".join(f"{name} ({needs})" for name, needs in LIBRARIES.items())
        return (
            f"deployment {deployment.name}: backend {deployment.backend} knows no library {library!r}: "
            f"set library to one of {known}"
        )
    if deployment.uniform:
        return f"deployment {deployment.name}: backend {deployment.backend} compiles nothing: set uniform to false"
    if library == "neuron" and (lacking := _lacks_torchneuron()):
        return f"deployment {deployment.name}: library neuron needs {lacking}"
    if library == "nccl" and launcher_of(deployment).this_host and (lacking := node.lacks_gpus(deployment)):
        return f"deployment {deployment.name}: {lacking}"
    return ""


def patience(deployment: Deployment) -> float:
    """Return 1, with neuron more: TorchNeuron compiles an operation when it first meets it."""
    return COMPILING if deployment.library == "neuron" else 1.0


def _neuron_version() -> str:
    try:
        return metadata.version(NEURON)
    except metadata.PackageNotFoundError:
        return ""


def _lacks_torchneuron() -> str:
    version = _neuron_version()
    if not version:
        return (
            f"{NEURON} of TorchNeuron, which this Python does not have: install it there (Trainium 2 and later), "
            "or set library to gloo"
        )
    if tuple(map(int, version.split(".")[:2])) < FIRST_NATIVE:
        return (
            f"TorchNeuron, and {NEURON} {version} is of PyTorch/XLA: install {'.'.join(map(str, FIRST_NATIVE))} or "
            "later (Trainium 2 and later), or set backend to torchxla"
        )
    return ""


def _nccl_version() -> str:
    """Return nccl's version as deployed modules find it (`calls.found`); a plan's torch may be without it."""
    from torch.cuda import nccl

    try:
        return ".".join(map(str, nccl.version()))
    except AttributeError:
        return f"{NOT_INSTALLED}: install a torch that is built with CUDA"


def needs_cores(_deployment: Deployment) -> bool:
    """Return True: each rank has a computing thread."""
    return True


host = node.checks


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    from overlayccl_core.backends.torchdist import rank

    rank.run_rank(folder, library, work)
