"""Arms of a run: paired ratios, the chosen arm, the best that anybody could have written."""

import polars as pl
import pytest

from overlayccl_core.report.arms import Run, runs_of
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.steps import STEPS
from tests.report.fixture_tree import row


def steps(arm: str, launches: list[list[float]], purpose: str = "timed") -> list[dict[str, object]]:
    return [
        row(STEPS, model="m", microbatches=2, arm=arm, purpose=purpose, launch=n, steps_us=us)
        for n, us in enumerate(launches)
    ]


def chosen(arm: str, trained_in: str = "other m8, m m2") -> pl.DataFrame:
    return pl.DataFrame([row(CHOICE, case="c", arm=arm, trained_in=trained_in)], schema=CHOICE.schema)


def one_run(choice: pl.DataFrame | None = None) -> Run:
    rows = [
        *steps("developer", [[100.0, 110.0], [200.0, 220.0], [100.0, 100.0]]),
        *steps("hand_bundled", [[50.0, 55.0], [80.0, 88.0], [50.0, 50.0]]),
        *steps("finalist_1", [[25.0, 27.5], [50.0, 55.0], [25.0, 25.0]]),
        *steps("finalist_2", [[30.0, 33.0], [60.0, 66.0], [30.0, 30.0]]),
        *steps("big_batch", [[10.0, 11.0], [10.0, 11.0], [10.0, 10.0]]),
        *steps("finalist_1", [[5.0, 5.0]], purpose="quiet"),
    ]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema), choice)
    return run


def test_a_ratio_is_paired_within_launches() -> None:
    run = one_run()
    ratio = run.arms["finalist_1"].speedup_over(run.arms["developer"])
    assert ratio is not None  # 4 in every launch, though launches differ by a factor of 2
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((4, 4, 4))


def test_a_step_is_the_median_over_launches_and_its_interval_spans_them() -> None:
    us = one_run().arms["developer"].us
    assert us is not None and us.value == pytest.approx(105)
    assert us.low < 105 < us.high


def test_launches_of_different_lengths_are_not_paired() -> None:
    rows = [*steps("developer", [[100.0, 110.0]]), *steps("hand_bundled", [[50.0]])]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema), None)
    assert run.arms["hand_bundled"].speedup_over(run.arms["developer"]) is None


def test_the_chosen_arm_is_that_of_the_cases_trained_in_this_run() -> None:
    assert one_run().chosen is None
    assert one_run(chosen("finalist_1")).chosen == "finalist_1"
    assert one_run(chosen("finalist_1", trained_in="m m20")).chosen is None


def test_cases_that_disagree_name_no_arm() -> None:
    both = pl.concat([chosen("finalist_1"), chosen("developer")])
    assert one_run(both).chosen is None
    assert one_run(both).deployed == ("developer", "finalist_1")


def test_the_best_other_arm_is_no_finalist_and_computes_the_same() -> None:
    other = one_run(chosen("finalist_1")).best_other
    assert other is not None and other.name == "hand_bundled"


def test_quiet_steps_are_kept_apart() -> None:
    arm = one_run().arms["finalist_1"]
    assert arm.quiet_us is not None and arm.quiet_us.value == 5
    assert one_run().arms["developer"].quiet_us is None
