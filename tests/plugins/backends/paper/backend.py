"""A backend for tests that works Programs out on paper: one process, NumPy for its library, a made-up clock."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from overlayccl_core.backends.paper import clock

from overlayccl_core.backends.plan import Calibration, LaunchPlan, PlannedJob, planned_job
from overlayccl_core.backends.rank import Rank
from overlayccl_core.backends.trials import Observed, Trial, Values, observed
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.failures import RefusedError
from overlayccl_core.launching.launch import Launch, Starter, Watch
from overlayccl_core.launching.launcher import DoctorCheck
from overlayccl_core.launching.status import Phase, StatusFile
from overlayccl_core.program.arithmetics import NUMPY_DTYPES, Real
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import Program

REQUIRES = ("numpy",)
FRAMEWORK_ARMS = False


def emit(program: Program) -> str:
    """The Program itself: there is nothing to translate."""
    return dumps(program)


def fingerprint(deployment: Deployment) -> str:
    """No host: paper is patient everywhere."""
    return fingerprints.line(
        {"emulated": "a made-up clock", "numpy": np.__version__, "ranks": str(deployment.ranks)}
    )


def refuses(_deployment: Deployment) -> str:
    """One process stands for any number of ranks and nodes."""
    return ""


def cannot_train(_deployment: Deployment) -> str:
    """There is no step on paper."""
    return "a made-up clock knows no training step"


def needs_cores(_deployment: Deployment) -> bool:
    """One process is all there is."""
    return False


def doctor(deployment: Deployment) -> list[DoctorCheck]:
    """NumPy is all it needs."""
    return [DoctorCheck("numpy", True, f"{np.__version__} for {deployment.ranks} ranks")]


def host(_deployment: Deployment) -> list[DoctorCheck]:
    """Any host has paper."""
    return []


def starter(_deployment: Deployment, _towards: str) -> Starter:
    """Its ranks are no processes."""
    raise RefusedError("paper starts no ranks")


def time_launch(deployment: Deployment, folder: Path, plan: LaunchPlan, watch: Watch) -> float:
    """Write what the clock makes of every Program; nothing is waited for, and nobody disturbs it."""
    settings = plan.settings
    rounds = settings.maximum_rounds
    each = tuple(min(rounds, job.rounds or rounds) for job in plan.jobs)
    Calibration(repeats=(1,) * len(plan.jobs), rounds=each).write(folder)
    stamps = plan.open_stamps(folder)
    for index, job in enumerate(plan.jobs):
        visits = each[index]
        program = _program((folder / job.module).read_text(), job)
        stamps[:visits, index] = clock.stamps(program, visits, deployment.ranks, seed=plan.launch)
    rows = StatusFile(np.zeros((deployment.ranks, 6), np.int64))
    rows.array[:, StatusFile.PHASE] = Phase.DONE
    watch(rows.snapshot())
    return 0.0


def run_once(
    deployment: Deployment,
    folder: Path,
    trials: Sequence[Trial],
    *,
    may_refuse: bool = False,
    step_timeout_s: float = 60.0,
) -> Sequence[Observed]:
    """What the Programs mean."""
    return [_observed(trial) for trial in trials]


def _observed(trial: Trial) -> Observed:
    tiles = trial.input_tiles
    inputs = {
        p: np.stack(list(map(tiles[p].spread, x))) if p in tiles else x for p, x in trial.inputs.items()
    }
    means = _meaning(_program(trial.job.source, planned_job(0, trial.job)), inputs)
    return observed(means, trial.output_tiles)


def _program(source: str, job: PlannedJob) -> Program:
    """What an emitted module is, or what a deployed one holds."""
    if not job.deployed:
        return loads(source)
    module: dict[str, Any] = {}
    exec(source, module)
    return loads(module["PROGRAMS"][job.case][job.function])


def _meaning(program: Program, inputs: Values) -> Values:
    """port -> [ranks of the deployment, elements], every group of ranks for itself."""
    problem = program.problem
    outputs: dict[Any, Any] = {}
    for group in problem.case.members():
        rows = list(group)
        here = {}
        for port, spec in problem.inputs.items():
            x = inputs[port][rows].astype(NUMPY_DTYPES[spec.dtype])
            here[port] = x[:1] if spec.placement is Placement.REPLICATE else x
        held, _ = evaluate(program.outputs, here, Real(), problem.ranks)
        for port, value in held.items():
            whole = outputs.setdefault(port, np.zeros((len(inputs[next(iter(inputs))]), value.data.shape[1])))
            whole[rows] = value.on_all()
    return outputs


def train(deployment: Deployment, started: Launch, watch: Watch) -> float:
    """It has no training launch."""
    raise ValueError(f"deployment {deployment.name}: {cannot_train(deployment)}")


def run_rank(folder: Path, library: str, work: Callable[[Rank], None]) -> None:
    """It has no ranks of their own."""
    raise ValueError(f"{folder}: {library} runs in no process of its own")
