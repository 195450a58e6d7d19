"""confirm: what is deployed, timed again in launches that choose nothing, beside all that needs no search.

What was chosen for being the fastest looks faster than it is in the launches that it was chosen in. The figures
that are reported come from these. What runs is the file in deploy/ itself, whose own selftest passes on the ranks
first; its values are looked at before it is timed, its gradients before it is trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import Backend, backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.timing import Batch, time_candidates
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model, label
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.values import Proven, value_check
from overlayccl_core.gates.training import wrong_gradients
from overlayccl_core.measuring.arms import FINALISTS, NEEDS_NO_SEARCH, ArmName
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.training.arms import Arms
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.plan import StepSettings

Row = dict[str, Any]
RULE = "confirm"  # what the folders of its launches begin with


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What was decided of a Problem: its tables finalists and choice, and the source of the deployed file."""

    finalists: pl.DataFrame
    choice: pl.DataFrame
    module: str


def run(
    deployment: Deployment,
    settings: Settings,
    problems: Mapping[str, Decided],
    models: Sequence[Model],
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """The rows of `confirmed`, `confirmed_steps` and `confirmed_stamps`.

    ValueError where the deployed file gives wrong values or gradients on the ranks, naming it.
    """
    frames: dict[str | Path, pl.DataFrame] = {
        f"{name}: finalists": decided.finalists for name, decided in problems.items()
    }
    one_fingerprint(frames, "the rule bench")
    rows = {name: rows_of(decided) for name, decided in problems.items()}
    confirmed: list[Row] = []
    for number in range(settings.confirm.launches):
        timing = TimingSettings(
            seconds=settings.confirm.seconds,
            minimum_rounds=settings.confirm.minimum_rounds,
            maximum_rounds=settings.confirm.maximum_rounds,
            seed=number,
        )
        progress(f"timing launch {number + 1} of {settings.confirm.launches}")
        timed = _timed(deployment, timing, problems, rows, number, Path(partial_dir), progress, code)
        before = confirmed[-1]["launch"] + 1 if confirmed else 0
        confirmed += [{**row, "launch": before + row["launch"]} for row in timed]
    steps: list[Row] = []
    stamps: list[Row] = []
    for model in models:
        trained, told = _trained(
            deployment, settings, model, problems, rows, Path(partial_dir), progress, code
        )
        steps += trained
        stamps += told
    return {"confirmed": confirmed, "confirmed_steps": steps, "confirmed_stamps": stamps}


def rows_of(decided: Decided) -> list[Row]:
    """The rows of `finalists`, and one of what is deployed at each Case and direction."""
    listed = list(decided.finalists.iter_rows(named=True))
    deployed = []
    for choice in decided.choice.iter_rows(named=True):
        mine = next(r for r in listed if all(r[k] == choice[k] for k in ("case", "direction", "arm")))
        deployed.append({**mine, "arm": ArmName.DEPLOYED})
    return [*listed, *deployed]


def _timed(
    deployment: Deployment,
    timing: TimingSettings,
    problems: Mapping[str, Decided],
    rows: Mapping[str, Sequence[Row]],
    number: int,
    partial_dir: Path,
    progress: Callable[[str], None],
    code: str,
) -> list[Row]:
    """One launch of all Problems: rows of `confirmed`."""
    backend = backend_of(deployment)
    proven: dict[str, Proven] = {}
    heads: dict[str, Row] = {}
    for problem, decided in problems.items():
        seen: set[tuple[str, ...]] = set()
        for row in rows[problem]:
            place = (row["case"], row["direction"])
            emitted = row["arm"] in NEEDS_NO_SEARCH
            if not (emitted or row["arm"] == ArmName.DEPLOYED) or (
                emitted and (*place, row["program"]) in seen
            ):
                continue
            seen |= {(*place, row["program"])} if emitted else set()
            key = " ".join((*place, row["arm"]))
            proven[key] = Proven(
                job=_job(key, row, backend, decided.module),
                numerics=NumericsClass(row["numerics"]),
                reference=row["arm"] == ArmName.DEVELOPER,
                needed=row["arm"] == ArmName.DEPLOYED,
            )
            heads[key] = {
                "problem": problem,
                **{k: row[k] for k in ("case", "direction", "arm", "candidate")},
            }
    batch = Batch(
        jobs=[one.job for one in proven.values()],
        deployment=deployment,
        settings=timing,
        partial_dir=partial_dir,
        rule=f"{RULE}-{number}",
        code=code,
    )
    timed, _failed = time_candidates(batch, value_check(proven.values()), progress)
    timed = sorted(timed, key=lambda one: one.launch)
    return [{**heads[one.key], **one.columns(proven[one.key].job.program)} for one in timed]


def _job(key: str, row: Row, backend: Backend, module: str) -> Job:
    program, deployed = loads(row["program_json"]), row["arm"] == ArmName.DEPLOYED
    return Job(
        key=key, program=program, source=module if deployed else backend.emit(program), deployed=deployed
    )


def _timed_only(_arm: str) -> tuple[Purpose, ...]:
    return (Purpose.TIMED,)


def _trained(
    deployment: Deployment,
    settings: Settings,
    model: Model,
    problems: Mapping[str, Decided],
    rows: Mapping[str, Sequence[Row]],
    partial_dir: Path,
    progress: Callable[[str], None],
    code: str,
) -> tuple[list[Row], list[Row]]:
    """The launches of a model: rows of `confirmed_steps` and `confirmed_stamps`."""
    backend = backend_of(deployment)
    arms = Arms(model, deployment, backend, [row for listed in rows.values() for row in listed])
    chosen = {arm for decided in problems.values() for arm in decided.choice["arm"]}
    for microbatches in model.microbatches:
        arms.add(microbatches, [*NEEDS_NO_SEARCH, *(arm for arm in FINALISTS if arm in chosen)], _timed_only)
        arms.add_deployed(microbatches, {name: decided.module for name, decided in problems.items()})
        arms.add_framework(microbatches)
    training = Training(
        model=model,
        arms=tuple(arms.arms),
        sources=arms.sources,
        deployment=deployment,
        fingerprint=backend.fingerprint(deployment),
        settings=StepSettings(
            seconds=settings.confirm.step_seconds,
            minimum_steps=settings.confirm.minimum_steps,
            maximum_steps=settings.confirm.maximum_steps,
            loss_steps=0,
            loss_seeds=(),
        ),
        launches=settings.confirm.launches,
    )
    trained = train(training, partial_dir, f"{RULE}-{model.name}", code, progress)
    for row in trained:
        error = row["gradient_rel_error"]
        wrong = row["message"] or ("" if error is None else wrong_gradients(error))
        if row["arm"] == ArmName.DEPLOYED and wrong:
            where = label(model.name, row["microbatches"])
            raise ValueError(
                f"the deployed files, in {where}: {wrong}: do not use them; look at what the backend emits"
            )
    return trained, arms.stamps(trained)
