"""What training says of every arm: from the tables of steps and stamps to what the training gate judges."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import label
from overlayccl_core.gates.bench import FAILED
from overlayccl_core.gates.training import ArmEvidence, Trained, best_other, faster_frameworks, judge, passes
from overlayccl_core.gates.verdict import Check, Gate, Outcome, Reason, Verdict
from overlayccl_core.measuring.arms import FINALISTS, ArmName, is_framework
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program

Row = Mapping[str, Any]
RIGHT = frozenset({Check.MATMULS, Check.GRADIENTS, Check.LOSSES})
REDUCING = frozenset({Kind.ALL_REDUCE, Kind.REDUCE_SCATTER})
EXPLANATION = "the library sums in an order of its own, which depends on the sizes of its buffers"
_SEVERITY = tuple(NumericsClass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A Program that an arm is to have run at a Case and direction."""

    case: str
    direction: str
    program: Program
    numerics: NumericsClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """An arm in one model. speedup: over the developer's arm; gain: over best_other, which needs no search.

    faster_frameworks: (arm, its step over this one's) of the framework's own that are faster beyond noise.
    """

    verdicts: tuple[Verdict, ...]
    speedup: Ratio | None = None
    gain: Ratio | None = None
    best_other: str | None = None
    faster_frameworks: tuple[tuple[str, Ratio], ...] = ()


def arms_by_model(steps: pl.DataFrame) -> dict[str, dict[str, ArmEvidence]]:
    """`nano m8` -> arm -> what was seen of it.

    Arms that compute something else are left out, and those that failed in a launch (`failed_arms`).
    """
    failed = failed_arms(steps)
    by_model: dict[str, dict[str, list[Row]]] = {}
    for row in steps.iter_rows(named=True):
        model = label(row["model"], row["microbatches"])
        compared = row["arm"] != ArmName.BIG_BATCH and row["purpose"] != Purpose.QUIET
        if compared and (model, row["arm"]) not in failed:
            arms = by_model.setdefault(model, {})
            arms.setdefault(row["arm"], []).append(row)
    return {
        model: {arm: _evidence(arm, rows) for arm, rows in arms.items()} for model, arms in by_model.items()
    }


def failed_arms(steps: pl.DataFrame) -> dict[tuple[str, str], Verdict]:
    """(`nano m8`, arm) -> how it failed in a training launch, which is what training says of it."""
    return {
        (label(row["model"], row["microbatches"]), row["arm"]): Verdict(
            gate=Gate.TRAINING, outcome=Outcome.FAIL, reason=FAILED[row["status"]], message=row["message"]
        )
        for row in steps.iter_rows(named=True)
        if row["status"] in FAILED
    }


def _evidence(arm: str, rows: Iterable[Row]) -> ArmEvidence:
    rows = list(rows)
    timed = [row for row in rows if row["purpose"] == Purpose.TIMED]
    errors = [row["gradient_rel_error"] for row in rows if row["gradient_rel_error"] is not None]
    counted = [(row["matmuls"], row["matmul_digest"]) for row in rows if row["matmuls"] is not None]
    return ArmEvidence(
        arm=arm,
        steps_us={row["launch"]: tuple(row["steps_us"]) for row in timed},
        losses={row["seed"]: tuple(row["losses"]) for row in rows if row["purpose"] == Purpose.LOSS},
        timed_losses={row["launch"]: tuple(row["losses"]) for row in timed},
        gradient_rel_error=max(errors, default=None),
        matmuls=frozenset(counted),
        disturbed_launches=frozenset(row["launch"] for row in timed if row["disturbed"]),
    )


def outcomes(
    model: str,
    arm: str,
    arms: Mapping[str, ArmEvidence],
    stamps: pl.DataFrame,
    ran: Callable[[str], Iterable[Ran]],
) -> Outcomes:
    """The training gate's verdicts about one arm of `nano m8`: of all its sites together.

    ran(arm): the Programs that it is to have run at the sites that are known here; other sites count as reordered.
    What the stamps tell of another Program, or nothing at all, is unproven. The framework's own arms are in `gain`;
    whether one module is deployed or another is no question of theirs. A finalist that computes something
    else than the developer is nothing to be compared with, however fast it is.
    """
    trial = _trial(model, arm, arms, stamps, ran)
    if isinstance(trial, Verdict):
        return Outcomes(verdicts=(trial,))
    others = [one for name, one in arms.items() if name != arm and name not in FINALISTS]
    best = best_other(trial.arm, others)
    faster = faster_frameworks((one.arm, trial.arm.speedup_over(one)) for one in others)
    others = [one for one in others if not is_framework(one.arm)]
    for name in FINALISTS:
        if name != arm and name in arms:
            other = _trial(model, name, arms, stamps, ran)
            if not isinstance(other, Verdict) and passes(judge(other, RIGHT)):
                others.append(arms[name])
    return Outcomes(
        verdicts=judge(replace(trial, others=tuple(others))),
        speedup=trial.arm.speedup_over(trial.developer),
        gain=best[1] if best else None,
        best_other=best[0] if best else None,
        faster_frameworks=faster,
    )


def _trial(
    model: str,
    arm: str,
    arms: Mapping[str, ArmEvidence],
    stamps: pl.DataFrame,
    ran: Callable[[str], Iterable[Ran]],
) -> Trained | Verdict:
    """An arm beside the developer's, no others yet; or why there is nothing to judge."""
    if arm not in arms or ArmName.DEVELOPER not in arms:
        return _unproven(f"{arm} was not trained in {model}: train it again")
    sites = stamps.filter((_label_of_row() == model) & (pl.col("arm") == arm))
    programs = {(one.case, one.direction): one for one in ran(arm)}
    known, elsewhere = [], False
    for site in sites.iter_rows(named=True):
        one = programs.get((site["case"], site["direction"]))
        if one is None:
            elsewhere = True
        elif one.program.digest != site["program"]:
            place = f"{site['case']} {site['direction']}"
            return _unproven(f"{arm} ran another Program at {place}: train it again")
        else:
            known.append(one)
    if not known:
        return _unproven(f"no stamp says what {arm} ran in {model}: train it again")
    classes = [one.numerics for one in known] + [NumericsClass.REORDERED] * elsewhere
    reduces = any(x.kind in REDUCING for one in known for x in one.program.collectives)
    return Trained(
        arm=arms[arm],
        developer=arms[ArmName.DEVELOPER],
        others=(),
        numerics=max(classes, key=_SEVERITY.index),
        explained=EXPLANATION if reduces else "",
    )


def _label_of_row() -> pl.Expr:
    return pl.col("model") + " m" + pl.col("microbatches").cast(pl.String())


def _unproven(message: str) -> Verdict:
    return Verdict(gate=Gate.TRAINING, outcome=Outcome.UNPROVEN, reason=Reason.NOT_MEASURED, message=message)
