"""Losses of long courses by hand: joined into one table, and judged by how the arms round."""

import json
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.curves import curve_rows, loss_rows
from overlayccl_core.gates.training import EARLY_STEP
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.tables.longrun import CURVES, LONG_STAMPS, LONG_STEPS, LOSSES
from overlayccl_core.tables.table import write
from tests.fake_timings import FINGERPRINT
from tests.gates.training_evidence import STEPS, curve
from tests.rows import row

CASE = case_of("grad_ar", {"sizes": [4, 4]}, load("config/deployments/local-2.yaml"))
ARMS = {"developer": "one_by_one", "hand_bundled": "flat", "deployed": "flat"}


def programs() -> dict[str, Program]:
    source = catalog.library_source("grad_ar")
    return {arm: trace_source(source, name, catalog.build(CASE)) for arm, name in ARMS.items()}


def course(arm: str, seed: int = 0, change: float = 0.0, **columns: Any) -> dict[str, Any]:
    told = {
        "model": "tiny", "microbatches": 2, "arm": arm, "purpose": "loss", "seed": seed,
        "steps_us": [1.0] * STEPS, "losses": [list(x) for x in curve(seed, change=change)],
        "gradient_rel_error": 1e-7, "matmuls": 96, "matmul_digest": "0", "collectives": 4,
        "peak_memory_bytes": 1, "foreign_cpu_share": 0.0, "fingerprint": FINGERPRINT, "status": "trained",
    }  # fmt: skip
    return row(LONG_STEPS, **told | columns)


@pytest.fixture
def told(tmp_path: Any) -> Any:
    """steps, stamps and programs of courses, as the rule `losses` has them."""

    def tables(
        courses: list[dict[str, Any]], numerics: str = "reordered"
    ) -> tuple[pl.DataFrame, pl.DataFrame, list[dict[str, Any]]]:
        traced = programs()
        rows = [
            {
                "case": CASE.id, "direction": "forward", "arm": arm, "candidate": ARMS[arm], "numerics": numerics,
                "program": one.digest, "program_json": dumps(one),
            }
            for arm, one in traced.items()
        ]  # fmt: skip
        stamps = [
            row(
                LONG_STAMPS, model="tiny", microbatches=2, arm=one["arm"], ran_as=one["arm"], site="gradients",
                problem="grad_ar", case=one["case"], direction="forward", candidate=one["candidate"],
                program=one["program"], library="gloo", library_version="1", calls=2,
            )
            for one in rows
        ]  # fmt: skip
        steps = write(LONG_STEPS, courses, tmp_path / "long_steps.parquet")
        return steps, write(LONG_STAMPS, stamps, tmp_path / "long_stamps.parquet"), rows

    return tables


DEVELOPERS = [course("developer", seed) for seed in range(3)]


def judged(made: Any) -> dict[str, dict[str, Any]]:
    return {row["arm"]: row for row in curve_rows(*made)}


def test_every_step_of_every_arm_is_a_row_with_its_difference_from_developer(
    told: Any, tmp_path: Any
) -> None:
    steps, *_ = told([*DEVELOPERS, course("deployed", change=0.1)])
    frame = write(LOSSES, list(loss_rows(steps)), tmp_path / "losses.parquet")
    assert frame.height == 4 * STEPS
    mine, theirs = (frame.filter(arm=arm, seed=0).sort("step") for arm in ("deployed", "developer"))
    assert mine["step"].to_list() == list(range(STEPS))
    assert mine["loss"][0] == curve(0)[0][0]
    assert mine["developer_difference"].to_list() == (mine["loss"] - theirs["loss"]).to_list()
    assert mine["developer_difference"][-1] > 0.2
    assert set(frame.filter(arm="developer")["developer_difference"]) == {0.0}


def test_an_arm_that_drifts_as_rounding_does_passes_and_the_end_is_a_mean(told: Any, tmp_path: Any) -> None:
    made = told([*DEVELOPERS, course("deployed", change=1e-5), course("ddp_25", change=1e-5)])
    frame = write(CURVES, curve_rows(*made), tmp_path / "curves.parquet")
    assert frame["arm"].to_list() == ["developer", "deployed", "ddp_25"]
    assert set(frame["outcome"]) == {"pass"} and set(frame["steps"]) == {STEPS}
    assert set(frame["numerics"]) == {"reordered"}  # the framework's, too
    end = [x[0] for x in curve(0)[-STEPS // 10 :]]
    assert frame["last_loss"][0] == pytest.approx(sum(end) / len(end))
    figures = json.loads(frame["evidence"][1])
    assert 0 < figures["final_difference"] < figures["band"] / 2


@pytest.mark.parametrize(
    ("numerics", "change", "outcome"),
    [
        ("reordered", 0.004, "fail"),  # half the spread over seeds is 0.01
        ("reordered", 0.0005, "pass"),
        ("lossy", 0.004, "pass"),  # all of it is 0.02
        ("lossy", 0.01, "fail"),
    ],
)
def test_how_far_an_arm_may_end_from_developer_is_measured_over_seeds(
    numerics: str, change: float, outcome: str, told: Any
) -> None:
    made = told([*DEVELOPERS, course("deployed", change=change)], numerics)
    mine = judged(made)["deployed"]
    assert (mine["numerics"], mine["outcome"]) == (numerics, outcome), mine["message"]


def test_an_arm_that_starts_otherwise_fails_whatever_the_spread(told: Any) -> None:
    wrong = course("deployed")
    wrong["losses"] = [
        [x * (1.001 if step == EARLY_STEP else 1) for x in row] for step, row in enumerate(wrong["losses"])
    ]
    mine = judged(told([*DEVELOPERS, wrong]))["deployed"]
    assert (mine["outcome"], mine["reason"]) == ("fail", "other_losses")
    assert f"by step {EARLY_STEP}" in mine["message"]


def test_without_other_seeds_nothing_is_said_of_the_end(told: Any) -> None:
    mine = judged(told([DEVELOPERS[0], course("deployed", change=0.004)], "reordered"))["deployed"]
    assert mine["outcome"] == "fail"  # by step 5 already
    mine = judged(told([DEVELOPERS[0], course("deployed", change=0.0005)]))["deployed"]
    assert mine["outcome"] == "pass" and "one seed" in mine["message"]


def test_an_arm_that_failed_has_no_losses_and_says_why(told: Any) -> None:
    failed = course(
        "hand_bundled", losses=[], steps_us=[], status="crashed", message="rank 1 died", matmuls=None,
    )  # fmt: skip
    mine = judged(told([*DEVELOPERS, failed]))["hand_bundled"]
    assert (mine["outcome"], mine["reason"], mine["message"]) == ("fail", "crashed", "rank 1 died")
    assert (mine["steps"], mine["last_loss"], mine["numerics"]) == (0, None, None)


def test_an_arm_that_ran_another_program_than_was_decided_is_unproven(told: Any) -> None:
    steps, stamps, rows = told([*DEVELOPERS, course("deployed")])
    other = stamps.with_columns(program=pl.lit("another"))
    mine = {row["arm"]: row for row in curve_rows(steps, other, rows)}["deployed"]
    assert mine["outcome"] == "unproven" and "ran another Program" in mine["message"]
