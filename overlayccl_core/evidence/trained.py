"""Training evidence of every arm: from the tables of steps and stamps to the input of the training gate."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import label, of_label
from overlayccl_core.gates.bench import FAILED
from overlayccl_core.gates.training import ArmEvidence, ArmOnTrial, Losses, judge
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.arms import ArmName, at_case
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.kinds import REDUCING
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program

Row = Mapping[str, Any]
EXPLANATION = "the library sums in an order of its own, which depends on the sizes of its buffers"
_SEVERITY = tuple(NumericsClass)
ARM, MEMORY = ("model", "microbatches", "arm"), "peak_memory_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A Program expected of an arm at a Case and direction."""

    case: str
    direction: str
    program: Program
    numerics: NumericsClass


def ran_by(places: Mapping[tuple[str, str], Mapping[str, Row]]) -> Callable[[str], Iterator[Ran]]:
    """Return arm -> its expected Programs. places: (case, direction) -> arm -> row of `finalists`."""
    read = cache(loads)

    def ran(arm: str) -> Iterator[Ran]:
        for (case, direction), here in places.items():
            if (row := at_case(here, arm, problem_of(case))) is not None:
                program, numerics = read(row["program_json"]), NumericsClass(row["numerics"])
                yield Ran(case=case, direction=direction, program=program, numerics=numerics)

    return ran


def arms_by_model(steps: pl.DataFrame, stamps: pl.DataFrame) -> dict[str, dict[str, ArmEvidence]]:
    """Return `nano m8` -> arm -> its evidence, except for arms that failed in a launch (`failed_arms`).

    An arm with the same modules as a plainer one was trained as that one (`ran_as`) and shares its evidence.
    """
    failed = failed_arms(steps, stamps)
    by_model: dict[str, dict[str, list[Row]]] = {}
    for row in steps.iter_rows(named=True):
        model = label(row["model"], row["microbatches"])
        if row["purpose"] in (Purpose.TIMED, Purpose.LOSS) and (model, row["arm"]) not in failed:
            by_model.setdefault(model, {}).setdefault(row["arm"], []).append(row)
    seen = {
        model: {arm: _evidence(arm, rows) for arm, rows in arms.items()} for model, arms in by_model.items()
    }
    for model, arm, ran_as in trained_as_others(stamps):
        if ran_as in seen.get(model, {}):
            seen[model][arm] = replace(seen[model][ran_as], arm=arm)
    return seen


def trained_as_others(stamps: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield (model, arm, the other arm it was trained as)."""
    others = stamps.filter(pl.col("arm") != pl.col("ran_as")).unique(
        ("model", "microbatches", "arm"), maintain_order=True
    )
    for row in others.iter_rows(named=True):
        yield label(row["model"], row["microbatches"]), row["arm"], row["ran_as"]


def failed_arms(steps: pl.DataFrame, stamps: pl.DataFrame) -> dict[tuple[str, str], Verdict]:
    """Return (`nano m8`, arm) -> the training gate's verdict on a failure in a launch."""
    failed = {
        (label(row["model"], row["microbatches"]), row["arm"]): Verdict.of(
            Gate.TRAINING, Outcome.FAIL, FAILED[row["status"]], row["message"]
        )
        for row in steps.iter_rows(named=True)
        if row["status"] in FAILED
    }
    same = {
        (model, arm): failed[model, ran_as]
        for model, arm, ran_as in trained_as_others(stamps)
        if (model, ran_as) in failed
    }
    return failed | same


def memory_of(before: pl.DataFrame) -> dict[tuple[str, int, str], int]:
    """Return (model, microbatches, arm) -> its memory as counted in training, from the table `steps`."""
    return {
        tuple(row[name] for name in ARM): row[MEMORY]
        for row in before.filter(pl.col(MEMORY).is_not_null()).iter_rows(named=True)
    }


def with_memory(counted: Mapping[tuple[str, int, str], int], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows of a later training with an arm's memory as counted before, if it was.

    A library may give memory back a little later in one count than in another; the deciding value is counted once.
    """
    return [{**row, MEMORY: counted.get(tuple(row[name] for name in ARM), row[MEMORY])} for row in rows]


def _evidence(arm: str, rows: Iterable[Row]) -> ArmEvidence:
    rows = list(rows)
    timed = [row for row in rows if row["purpose"] == Purpose.TIMED]
    errors = [row["gradient_rel_error"] for row in rows if row["gradient_rel_error"] is not None]
    counted = [(row["matmuls"], row["matmul_digest"]) for row in rows if row["matmuls"] is not None]
    return ArmEvidence(
        arm=arm,
        steps_us={row["launch"]: tuple(row["steps_us"]) for row in timed},
        losses={row["seed"]: _losses(row) for row in rows if row["purpose"] == Purpose.LOSS},
        timed_losses={row["launch"]: _losses(row) for row in timed},
        gradient_rel_error=max(errors, default=None),
        matmuls=frozenset(counted),
        peak_memory_bytes=max(
            (row["peak_memory_bytes"] for row in rows if row["peak_memory_bytes"] is not None), default=None
        ),
        disturbed_launches=frozenset(row["launch"] for row in timed if row["disturbed"]),
    )


def _losses(row: Row) -> Losses:
    return tuple(map(tuple, row["losses"]))


def judged(
    model: str,
    arm: str,
    arms: Mapping[str, ArmEvidence],
    stamps: pl.DataFrame,
    ran: Callable[[str], Iterable[Ran]],
) -> tuple[Verdict, ...]:
    """Return the training gate's verdicts about one arm of `nano m8`, over all its sites together.

    A stamp of another Program, or no stamp at all, makes the arm unproven.

    Args:
        ran: Gives an arm's expected Programs at the sites known here; other sites count as reordered.
    """
    trial = trial_of(model, arm, arms, stamps, ran)
    return (trial,) if isinstance(trial, Verdict) else judge(trial)


def trial_of(
    model: str,
    arm: str,
    arms: Mapping[str, ArmEvidence],
    stamps: pl.DataFrame,
    ran: Callable[[str], Iterable[Ran]],
) -> ArmOnTrial | Verdict:
    """Return an arm beside the developer's, or the verdict that there is nothing to judge."""
    if arm not in arms or ArmName.DEVELOPER not in arms:
        return _unproven(f"{arm} was not trained in {model}: train it again")
    name, microbatches = of_label(model)
    sites = stamps.filter(model=name, microbatches=microbatches, arm=arm)
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
    return ArmOnTrial(
        arm=arms[arm],
        developer=arms[ArmName.DEVELOPER],
        numerics=max(classes, key=_SEVERITY.index),
        explained=EXPLANATION if reduces else "",
    )


def _unproven(message: str) -> Verdict:
    return Verdict.of(Gate.TRAINING, Outcome.UNPROVEN, Reason.NOT_MEASURED, message)
