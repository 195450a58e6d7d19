"""What a backend does whose ranks are processes of torch: the launches that `Backend` declares, on one host or
many.

This file imports no torch: ranks do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends import launch, nodes
from overlayccl_core.backends.launch import Launch, RefusedError, Starter, Watch, no_watch
from overlayccl_core.backends.launcher import launcher_of
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.rank import write_joining
from overlayccl_core.backends.torch_ranks import starting
from overlayccl_core.backends.trials import Observed, Trial, read_seen, write_trials
from overlayccl_core.configuration.deployment import Deployment

TIMER = "overlayccl_core.backends.torch_ranks.timer"
TRIALS = "overlayccl_core.backends.torch_ranks.trials"
Starters = Callable[[Deployment, str], Starter]  # `starter` of a backend: (deployment, towards)


def check(deployment: Deployment, refuses: Callable[[Deployment], str]) -> None:
    """RefusedError where no ranks can be started, now and here."""
    if refused := refuses(deployment) or launcher_of(deployment).refuses_here(deployment):
        raise RefusedError(refused)


def host_parts(deployment: Deployment) -> Mapping[str, str]:
    """Of a fingerprint: this host, or the nodes that the deployment's file tells of."""
    if deployment.nodes == 1 and deployment.launcher == "here":
        return fingerprints.host_parts()
    return {"nodes": f"{deployment.nodes} of {deployment.node or 'Slurm'}", "launcher": deployment.launcher}


def ranks_of(deployment: Deployment) -> str:
    """How many ranks, and where they run."""
    if deployment.nodes == 1 and deployment.launcher == "here":
        return f"{deployment.ranks} on this host"
    node = f" ({deployment.node})" if deployment.node else ""
    return f"{deployment.ranks} on {deployment.nodes} nodes{node}, {deployment.ranks_per_node} each"


def starter_of(environment: Mapping[str, str]) -> Starter:
    """How ranks with such an environment are started on this host."""
    return starting.starter(environment)


def start(
    deployment: Deployment,
    started: Launch,
    starters: Starters,
    watch: Watch = no_watch,
    *,
    patience: float = 1.0,
) -> float:
    """Start a worker module on all ranks; returns the share of the CPU that others took.

    patience: how many times as long a step may take, where a library compiles in it, before it hangs.
    """
    write_joining(started.folder, deployment)
    started = replace(
        started,
        start_timeout_s=deployment.start_timeout_s,
        step_timeout_s=started.step_timeout_s * patience,
    )
    if deployment.nodes == 1:
        return launch.run(started, starters(deployment, ""), watch)
    return nodes.run(deployment, started, watch)


def time_launch(
    deployment: Deployment,
    folder: Path,
    plan: LaunchPlan,
    starters: Starters,
    watch: Watch,
    *,
    patience: float = 1.0,
) -> float:
    """Time the plan of a folder; returns the share of the CPU that others took."""
    timed = Launch(
        worker=TIMER,
        folder=folder,
        ranks=plan.ranks,
        names=tuple(job.key for job in plan.jobs),
        step_timeout_s=plan.settings.program_timeout_s,
    )
    return start(deployment, timed, starters, watch, patience=patience)


def run_once(
    deployment: Deployment,
    folder: Path,
    trials: Sequence[Trial],
    starters: Starters,
    *,
    may_refuse: bool,
    step_timeout_s: float,
    patience: float = 1.0,
) -> Sequence[Observed]:
    """Run every trial on all ranks, in order, in one launch."""
    write_trials(folder, trials, may_refuse=may_refuse)
    names = tuple(trial.job.key for trial in trials)
    tried = Launch(
        worker=TRIALS, folder=folder, ranks=deployment.ranks, names=names, step_timeout_s=step_timeout_s
    )
    start(deployment, tried, starters, patience=patience)
    return read_seen(folder, trials, deployment.ranks)
