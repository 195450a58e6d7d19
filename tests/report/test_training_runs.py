"""Arms in the launches by which was chosen."""

import polars as pl
import pytest

from overlayccl_core.report.training_runs import TrainingRun, runs_of
from overlayccl_core.tables.steps import STEPS
from tests.rows import row


def steps(arm: str, launches: list[list[float]], purpose: str = "timed") -> list[dict[str, object]]:
    return [
        row(
            STEPS,
            model="m",
            microbatches=2,
            arm=arm,
            purpose=purpose,
            status="trained",
            launch=n,
            steps_us=us,
        )
        for n, us in enumerate(launches)
    ]


def one_run() -> TrainingRun:
    rows = [
        *steps("developer", [[100.0, 110.0], [200.0, 220.0], [100.0, 100.0]]),
        *steps("finalist_1", [[25.0, 27.5], [50.0, 55.0], [25.0, 25.0]]),
        *steps("finalist_1", [[5.0, 5.0], [9.0, 9.0]], purpose="quiet"),
        *steps("finalist_1", [[1.0]], purpose="loss"),
    ]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema))
    return run


def test_a_step_is_the_median_over_launches_and_its_interval_spans_them() -> None:
    us = one_run().arms["developer"].us
    assert us is not None and us.value == pytest.approx(105)
    assert us.low is not None and us.high is not None and us.low < 105 < us.high
    assert one_run().launches == 3


def test_quiet_steps_are_kept_apart_and_the_first_launch_counts() -> None:
    arm = one_run().arms["finalist_1"]
    assert arm.quiet_us == 5
    assert one_run().arms["developer"].quiet_us is None
