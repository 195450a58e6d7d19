"""Tables of training made by hand: every arm of `finalists` in one model, at the speed that is asked for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from overlayccl_core.measuring.arms import at_case, only_problem
from overlayccl_core.program.case import problem_of
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from tests.fake_timings import FINGERPRINT
from tests.gates.training_evidence import LAUNCHES, MATMULS, SEEDS, curve, steps
from tests.rows import row

SPEEDS = {
    "developer": 4000.0,
    "single_graph": 3000.0,
    "hand_bundled": 1500.0,
    "best_known_way": 1400.0,
    "finalist_1": 1000.0,
    "finalist_2": 1200.0,
    "finalist_overlap": 1300.0,
    "deployed": 1005.0,
}


def train_tables(
    finalists: pl.DataFrame,
    folder: Any,
    *,
    model: str = "tiny",
    microbatches: int = 2,
    speeds: Mapping[str, float] = SPEEDS,
    wrong: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(steps, stamps). speeds: arm -> us of a step, also of arms that no module stands for; wrong: arm -> columns
    of its timed rows that are not right."""
    timed, stamps, finalists = [], [], exchanging(finalists)
    listed = [arm for arm in speeds if arm not in SPEEDS or arm in set(finalists["arm"])]
    for arm in listed:
        us, losses = (
            steps(speeds[arm]),
            {"losses": [list(x) for x in curve(0, change=0.0 if arm == "developer" else 1e-6)]},
        )
        for launch in LAUNCHES:
            timed.append(_row(model, microbatches, arm, "timed", launch, us[launch]) | losses)
        for one in timed[-len(LAUNCHES) :]:
            one.update((wrong or {}).get(arm, {}))
        for seed in SEEDS:
            losses = {"losses": [list(x) for x in curve(seed, change=0.0 if arm == "developer" else 1e-6)]}
            timed.append(_row(model, microbatches, arm, "loss", 0, us[0]) | losses | {"seed": seed})
        timed.append(_row(model, microbatches, arm, "quiet", 0, us[0]))
    alone = [arm for arm in listed if only_problem(arm)]
    for one in [*finalists.iter_rows(named=True), *_alone(finalists, alone)]:
        stamps.append(
            row(
                STAMPS,
                model=model,
                microbatches=microbatches,
                ran_as=one["arm"],
                site="entry" if "entry" in one["case"] else "exit",
                problem=one["case"].partition("/")[0],
                **{name: one[name] for name in ("arm", "case", "direction", "candidate", "program")},
                library="gloo",
                library_version="torch 2.13.0",
                calls=4,
            )
        )
    return write(STEPS, timed, folder / "steps.parquet"), write(STAMPS, stamps, folder / "stamps.parquet")


def exchanging(finalists: pl.DataFrame) -> pl.DataFrame:
    """Without Cases and directions that have the developer's Program alone: nothing is exchanged there."""
    return finalists.filter((pl.len() > 1).over("case", "direction"))


def _alone(finalists: pl.DataFrame, arms: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What arms that change one Problem run at each Case and direction."""
    for (case, _direction), rows in finalists.group_by("case", "direction", maintain_order=True):
        here = {row["arm"]: row for row in rows.iter_rows(named=True)}
        for arm in arms:
            mine = at_case(here, arm, problem_of(str(case)))
            assert mine is not None
            yield mine | {"arm": arm}


def _row(
    model: str, microbatches: int, arm: str, purpose: str, launch: int, steps_us: tuple[float, ...]
) -> dict[str, Any]:
    ((matmuls, digest),) = MATMULS
    inspected = purpose == "timed" and launch == 0
    seen = {
        "gradient_rel_error": 3e-7,
        "matmuls": matmuls,
        "matmul_digest": digest,
        "collectives": 16,
        "peak_memory_bytes": 2**20,
    }
    return row(
        STEPS,
        model=model,
        microbatches=microbatches,
        arm=arm,
        purpose=purpose,
        seed=launch,
        launch=launch,
        cold_us=[9000.0],
        steps_us=list(steps_us),
        losses=[[5.0, 5.0]],
        **(seen if inspected else {}),
        oversubscribed=True,
        foreign_cpu_share=0.01,
        fingerprint=FINGERPRINT,
        status="trained",
    )
