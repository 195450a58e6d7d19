"""The launches of backends with torch processes as ranks, as declared by `Backend`, on one host or many.

This file imports no torch: ranks do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.rank import write_joining
from overlayccl_core.backends.torch_ranks import starting
from overlayccl_core.backends.trials import Observed, Trial, read_seen, write_trials
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching import interface, launch, nodes
from overlayccl_core.launching.failures import RefusedError
from overlayccl_core.launching.launch import Launch, Starter, Watch, no_watch
from overlayccl_core.launching.launcher import launcher_of

TIMER = "overlayccl_core.backends.torch_ranks.timer"
TRIALS = "overlayccl_core.backends.torch_ranks.trials"


def host_parts(deployment: Deployment, *, devices: bool) -> Mapping[str, str]:
    """Return a fingerprint's parts for this host (devices: and its devices), or for the deployment file's nodes."""
    launcher, parts = launcher_of(deployment), dict[str, str]()
    if launcher.this_host:
        parts |= fingerprints.node_parts() if devices else fingerprints.host_parts()
    if launcher.agents:
        of = deployment.node or deployment.launcher
        parts |= {"nodes": f"{deployment.nodes} of {of}", "launcher": deployment.launcher}
    if options := deployment.launcher_options:
        parts["launcher options"] = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return parts


def ranks_of(deployment: Deployment) -> str:
    """Describe the number of ranks and their nodes."""
    if not launcher_of(deployment).agents:
        return f"{deployment.ranks} on this host"
    node = f" ({deployment.node})" if deployment.node else ""
    return f"{deployment.ranks} on {deployment.nodes} nodes{node}, {deployment.ranks_per_node} each"


def refused_interface(
    deployment: Deployment, environment: Callable[[Deployment, str], Mapping[str, str]]
) -> str:
    """Return why ranks cannot meet on this host, if it is their only one; empty if they can."""
    wrong = "" if launcher_of(deployment).agents else interface.refused(environment(deployment, ""))
    return f"deployment {deployment.name}: {wrong}" if wrong else ""


def cannot_train(_: Deployment) -> str:
    """Return no reason: torch's ranks train wherever they start."""
    return ""


def in_time(_: Deployment) -> float:
    """Return a patience of 1: steps compile nothing."""
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Starts ranks for a backend: its `starter, time_launch, run_once, train` are the methods of one instance.

    Attributes:
        refuses: As in `Backend`.
        environment: Returns the environment of the ranks on this host, for (deployment, towards).
        patience: Factor on the time limit of a step, for libraries that compile in it.
        imports: Modules that ranks in training need beside their worker, if slow to import.
    """

    refuses: Callable[[Deployment], str]
    environment: Callable[[Deployment, str], Mapping[str, str]]
    patience: Callable[[Deployment], float] = in_time
    imports: tuple[str, ...] = ()

    def starter(self, deployment: Deployment, towards: str) -> Starter:
        """Return the Starter of ranks on this host. towards: address of the first node; empty if it is alone."""
        environment = self.environment(deployment, towards)
        if wrong := interface.refused(environment):
            raise RefusedError(wrong)
        return starting.starter(environment)

    def time_launch(self, deployment: Deployment, folder: Path, plan: LaunchPlan, watch: Watch) -> float:
        """Time the plan of a folder; return the share of the CPU taken by others."""
        timed = Launch(
            worker=TIMER,
            folder=folder,
            ranks=plan.ranks,
            names=tuple(job.key for job in plan.jobs),
            step_timeout_s=plan.settings.program_timeout_s,
        )
        return self._start(deployment, timed, watch)

    def run_once(
        self,
        deployment: Deployment,
        folder: Path,
        trials: Sequence[Trial],
        *,
        may_refuse: bool = False,
        step_timeout_s: float = 60.0,
    ) -> Sequence[Observed]:
        """Run every trial on all ranks, in order, in one launch."""
        write_trials(folder, trials, may_refuse=may_refuse)
        names = tuple(trial.job.key for trial in trials)
        tried = Launch(
            worker=TRIALS, folder=folder, ranks=deployment.ranks, names=names, step_timeout_s=step_timeout_s
        )
        self._start(deployment, tried, no_watch)
        return read_seen(folder, trials, deployment.ranks)

    def train(self, deployment: Deployment, started: Launch, watch: Watch) -> float:
        """Start a worker module on all ranks; return the share of the CPU taken by others."""
        return self._start(deployment, replace(started, imports=self.imports), watch)

    def _start(self, deployment: Deployment, started: Launch, watch: Watch) -> float:
        """Start a launch here or on nodes; RefusedError if no ranks can be started, now and here."""
        if refused := self.refuses(deployment) or launcher_of(deployment).refuses_here(deployment):
            raise RefusedError(refused)
        write_joining(started.folder, deployment)
        started = replace(
            started,
            start_timeout_s=deployment.start_timeout_s,
            step_timeout_s=started.step_timeout_s * self.patience(deployment),
        )
        if launcher_of(deployment).agents:
            return nodes.run(deployment, started, watch)
        return launch.run(started, self.starter(deployment, ""), watch)
