"""The torch.distributed backend: real processes started by torchrun, gloo on CPUs and nccl on GPUs.

This file imports no torch: ranks do.
"""

from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.torchdist.launch import Launch, launch
from overlayccl_core.backends.torchdist.selftest import Selftest
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.emit import torch_dialect
from overlayccl_core.program.program import Program

REQUIRES = ("torch",)
Rows = list[dict[str, Any]]
WORKER = "overlayccl_core.backends.torchdist.worker"


def emit(program: Program) -> str:
    """The source of a Program's torch module."""
    return torch_dialect.emit(program)


def fingerprint(deployment: Deployment) -> str:
    """Host, torch, library and ranks in one line."""
    parts = {
        **fingerprints.host_parts(),
        "torch": metadata.version("torch"),
        "library": deployment.library,
        "ranks": f"{deployment.ranks} ({deployment.ranks_per_node} a node)",
    }
    return fingerprints.line(parts)


def time_launch(folder: Path, plan: LaunchPlan, watch: Callable[[NDArray[np.int64]], None]) -> float:
    """Time the plan of a folder; returns the share of the CPU that others took. LaunchError if ranks fail."""
    outcome = launch(
        Launch(
            worker=WORKER,
            folder=folder,
            ranks=plan.ranks,
            names=tuple(job.key for job in plan.jobs),
            start_timeout_s=plan.settings.start_timeout_s,
            step_timeout_s=plan.settings.program_timeout_s,
        ),
        watch,
    )
    return outcome.foreign_cpu_share


def selftest(deployment: Deployment, folder: Path, progress: Callable[[str], None]) -> tuple[Rows, Rows]:
    """(rows of selftest, rows of capabilities). SelftestError (a ValueError) if the library computes wrongly."""
    checks = Selftest(
        deployment=deployment,
        folder=folder,
        fingerprint=fingerprint(deployment),
        time_launch=lambda work, plan: time_launch(work, plan, lambda _rows: None),
        progress=progress,
    )
    return checks.run()


def doctor(deployment: Deployment) -> Rows:
    """What this machine has for the deployment: rows of check, ok, detail."""
    found = util.find_spec("torch") is not None
    version = metadata.version("torch") if found else "not installed: run `make`"
    cores = int(fingerprints.host_parts()["cores"])
    over = deployment.ranks_per_node > cores
    ranks = f"{deployment.ranks_per_node} ranks on {cores} cores"
    if over:
        ranks += ": oversubscribed, start-up times contain the operating system's scheduler"
    return [
        {"check": "torch", "ok": found, "detail": version},
        {"check": "cpu", "ok": True, "detail": fingerprints.cpu_model()},
        {"check": "ranks", "ok": True, "detail": ranks},
    ]
