"""Members of `Backend` for torch processes as ranks: fingerprint, refusals, launches on one host or many.

A `backend.py` imports these functions as its own and defines `TorchLibrary` beside them. Each function asks the
backend named by the deployment for it. This file imports no torch: ranks do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from overlayccl_core import loader
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.rank import write_joining
from overlayccl_core.backends.torch_ranks import fork_client
from overlayccl_core.backends.trials import Observed, Trial, read_seen, write_trials
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching import interface, launch, nodes
from overlayccl_core.launching.failures import RefusedError
from overlayccl_core.launching.launch import Launch, Starter, Watch, no_watch
from overlayccl_core.launching.launcher import DoctorCheck, launcher_of

TIMER = "overlayccl_core.backends.torch_ranks.timer"
TRIALS = "overlayccl_core.backends.torch_ranks.trials"
NOT_INSTALLED = "not installed"


class TorchLibrary(Protocol):
    """Members of a `backend.py` that the functions below ask for: its knowledge of the library.

    Attributes:
        ON_CPUS: Libraries with ranks on CPUs; for each the source of its times if it emulates another, else "".
        IMPORTS: Modules that ranks in training need beside their worker, if slow to import.
    """

    ON_CPUS: Mapping[str, str]
    IMPORTS: tuple[str, ...]

    def versions(self, deployment: Deployment) -> Mapping[str, str]:
        """Return package -> version in use; NOT_INSTALLED begins a missing one."""

    def refuses_library(self, deployment: Deployment) -> str:
        """Return why the library cannot run on this host, with the mend; empty if it can."""

    def environment(self, deployment: Deployment, towards: str) -> Mapping[str, str]:
        """Return the environment of the ranks on this host. towards: address of the first node; empty if alone."""

    def environment_parts(self, deployment: Deployment) -> Mapping[str, str]:
        """Return a fingerprint's parts on the settings that reach the ranks."""

    def patience(self, deployment: Deployment) -> float:
        """Return the factor on the time limit of a step; above 1 if the library compiles in it."""


def _library(deployment: Deployment) -> TorchLibrary:
    return loader.plug_in(TorchLibrary, "backends", deployment.backend)


def fingerprint(deployment: Deployment) -> str:
    """Describe host or nodes, devices, versions, library, ranks and their environment in one line."""
    library = _library(deployment)
    emulated = library.ON_CPUS.get(deployment.library)
    parts = {
        **({"emulated": emulated} if emulated else {}),
        **_host_parts(deployment, devices=emulated is None),
        **library.versions(deployment),
        "library": deployment.library,
        "ranks": f"{deployment.ranks} ({deployment.ranks_per_node} a node)",
        **library.environment_parts(deployment),
    }
    return fingerprints.line(parts)


def refuses(deployment: Deployment) -> str:
    """Return why ranks cannot be started (launcher, library, or interface to meet on); empty if they can."""
    launcher, library = launcher_of(deployment), _library(deployment)
    if refused := launcher.refuses(deployment) or library.refuses_library(deployment):
        return refused
    wrong = "" if launcher.agents else interface.refused(library.environment(deployment, ""))
    return f"deployment {deployment.name}: {wrong}" if wrong else ""


def cannot_train(deployment: Deployment) -> str:
    """Return no reason: torch's ranks train wherever they start."""
    return ""


def doctor(deployment: Deployment) -> list[DoctorCheck]:
    found, refused = _library(deployment).versions(deployment).items(), refuses(deployment)
    return [
        *(DoctorCheck(name, not version.startswith(NOT_INSTALLED), version) for name, version in found),
        DoctorCheck("ranks", not refused, refused or _ranks_of(deployment)),
    ]


def starter(deployment: Deployment, towards: str) -> Starter:
    """Return the Starter of ranks on this host. towards: address of the first node; empty if it is alone."""
    environment = _library(deployment).environment(deployment, towards)
    if wrong := interface.refused(environment):
        raise RefusedError(wrong)
    return fork_client.starter(environment)


def time_launch(deployment: Deployment, folder: Path, plan: LaunchPlan, watch: Watch) -> float:
    timed = Launch(
        worker=TIMER,
        folder=folder,
        ranks=plan.ranks,
        names=tuple(job.key for job in plan.jobs),
        step_timeout_s=plan.settings.program_timeout_s,
    )
    return _start(deployment, timed, watch)


def run_once(
    deployment: Deployment,
    folder: Path,
    trials: Sequence[Trial],
    *,
    may_refuse: bool = False,
    step_timeout_s: float = 60.0,
) -> Sequence[Observed]:
    write_trials(folder, trials, may_refuse=may_refuse)
    names = tuple(trial.job.key for trial in trials)
    tried = Launch(
        worker=TRIALS, folder=folder, ranks=deployment.ranks, names=names, step_timeout_s=step_timeout_s
    )
    _start(deployment, tried, no_watch)
    return read_seen(folder, trials, deployment.ranks)


def train(deployment: Deployment, started: Launch, watch: Watch) -> float:
    return _start(deployment, replace(started, imports=_library(deployment).IMPORTS), watch)


def _start(deployment: Deployment, started: Launch, watch: Watch) -> float:
    """Start a launch here or on nodes; RefusedError if no ranks can be started, now and here."""
    if refused := refuses(deployment) or launcher_of(deployment).refuses_here(deployment):
        raise RefusedError(refused)
    write_joining(started.folder, deployment)
    started = replace(
        started,
        start_timeout_s=deployment.start_timeout_s,
        step_timeout_s=started.step_timeout_s * _library(deployment).patience(deployment),
    )
    if launcher_of(deployment).agents:
        return nodes.run(deployment, started, watch)
    return launch.run(started, starter(deployment, ""), watch)


def _host_parts(deployment: Deployment, *, devices: bool) -> Mapping[str, str]:
    """Return a fingerprint's parts for this host (devices: and its devices), or for the deployment file's nodes."""
    launcher, parts = launcher_of(deployment), dict[str, str]()
    if launcher.this_host:
        parts |= fingerprints.node_parts() if devices else fingerprints.host_parts()
    if launcher.agents:
        of = deployment.node or deployment.launcher
        parts |= {"nodes": f"{deployment.nodes} of {of}", "launcher": deployment.launcher}
    if launcher.this_host and (rate := launcher.link_bytes_per_s(deployment)):
        rails = f"{count} a node of " if (count := launcher.rails(deployment)) > 1 else ""
        parts["links"] = f"{rails}{rate * 8 / 1e6:g} Mbit/s emulated"
    if options := deployment.launcher_options:
        parts["launcher options"] = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return parts


def _ranks_of(deployment: Deployment) -> str:
    if not launcher_of(deployment).agents:
        return f"{deployment.ranks} on this host"
    node = f" ({deployment.node})" if deployment.node else ""
    return f"{deployment.ranks} on {deployment.nodes} nodes{node}, {deployment.ranks_per_node} each"
