"""The torch_xla backend: closed libraries behind PJRT (Neuron on Trainium, TPUs), and a stand-in on CPU ranks.

Modules are one graph on all ranks, cut at a Program's boundaries and at the end of a call. This file imports no
torch and no torch_xla: ranks do.
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
from overlayccl_core.backends.torchxla import node
from overlayccl_core.backends.torchxla.environment import (
    NUMERIC_TOKEN,
    STANDIN,
    environment,
    environment_parts,
)
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit import torch_dialect
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.program.program import Program

__all__ = ["cannot_train", "doctor", "fingerprint", "refuses"]  # shared members of the protocol
__all__ += ["run_once", "starter", "time_launch", "train"]
__all__ += ["environment", "environment_parts"]
REQUIRES = ("torch",)
FRAMEWORK_ARMS = False  # DDP and FSDP are torch.distributed's
NEURON, TPU = node.NEURON, "tpu"
NEEDS = {  # library -> packages required on the hosts of its ranks
    NEURON: ("torch", "torch-xla", "torch-neuronx", "neuronx-cc", "libneuronxla"),
    TPU: ("torch", "torch-xla", "libtpu"),
    STANDIN: ("torch",),
}
ON_CPUS = {STANDIN: "torch_xla's calls by gloo"}
IMPORTS = ()
WHAT = {NEURON: "NeuronCores of Trainium", TPU: "TPUs", STANDIN: "CPU ranks of gloo in place of torch_xla"}
VERSIONS = ("torch", "torch-xla", "torch-neuronx", "neuronx-cc", "libneuronxla", NUMERIC_TOKEN)
CALLS = "overlayccl_core.backends.torchxla.calls"  # printed into modules
PATIENCE = 60.0  # our guess of an upper limit: step with compiling and loading a graph over one without


def emit(program: Program) -> str:
    """Return the source of a Program's module: one graph on all ranks."""
    return torch_dialect.emit(program, calls=CALLS)


def versions(deployment: Deployment) -> dict[str, str]:
    return {name: _version(name) for name in NEEDS.get(deployment.library, ("torch",))}


def _version(name: str) -> str:
    """Return the version of an installed package; a plan may be made without it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


def refuses_library(deployment: Deployment) -> str:
    library = deployment.library
    if library not in NEEDS:
        known = ", ".join(f"{name} ({WHAT[name]})" for name in NEEDS)
        return (
            f"deployment {deployment.name}: backend {deployment.backend} knows no library {library!r}: "
            f"set library to one of {known}"
        )
    if not deployment.uniform:
        return (
            f"deployment {deployment.name}: backend {deployment.backend} compiles one graph for all ranks: "
            "set uniform to true"
        )
    if library == STANDIN and util.find_spec("torch_xla") is not None:
        return (
            f"deployment {deployment.name}: torch_xla is installed here, and its stand-in is for where it is "
            "not: use the environment of `make env`"
        )
    missing = [name for name in NEEDS[library] if _version(name) == NOT_INSTALLED]
    if missing:
        return (
            f"deployment {deployment.name}: {library} needs {', '.join(missing)}, which this Python does not have: "
            "install envs/trn1.txt in the environment that all nodes share (docs/trn1.md), or use `--profile local`"
        )
    return _refused_devices(deployment) if library == NEURON and launcher_of(deployment).this_host else ""


def _refused_devices(deployment: Deployment) -> str:
    cores, ranks = node.cores(), deployment.ranks_per_node
    if cores >= ranks:
        return ""
    return (
        f"deployment {deployment.name}: its {ranks} ranks need a NeuronCore each, and this host has {cores}: run "
        "`snakemake --profile trn1 all` on the head node of a cluster, or use `--profile local`"
    )


def needs_cores(deployment: Deployment) -> bool:
    """Tell whether ranks are the stand-in's; devices have cores of their own."""
    return deployment.library == STANDIN


def patience(deployment: Deployment) -> float:
    """Return the factor on the time limit of a step that compiles graphs."""
    return 1.0 if deployment.library == STANDIN else PATIENCE


host = node.checks


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    from overlayccl_core.backends.torchxla import rank

    rank.run_rank(folder, library, work)
