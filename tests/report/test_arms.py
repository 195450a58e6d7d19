"""Arms of a run: paired ratios, the chosen arm, the best that anybody could have written."""

import polars as pl
import pytest

from overlayccl_core.report.arms import Run, runs_of
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.steps import STAMPS, STEPS
from tests.report.fixture_rows import row


def steps(arm: str, launches: list[list[float]], purpose: str = "timed") -> list[dict[str, object]]:
    return [
        row(STEPS, model="m", microbatches=2, arm=arm, purpose=purpose, launch=n, steps_us=us)
        for n, us in enumerate(launches)
    ]


def chosen(arm: str, trained_in: str = "other m8, m m2") -> pl.DataFrame:
    return pl.DataFrame([row(CHOICE, case="c", arm=arm, trained_in=trained_in)], schema=CHOICE.schema)


def stamps(**programs: tuple[str, ...]) -> pl.DataFrame:
    """The Programs of arms at the sites entry, exit."""
    rows = [
        row(STAMPS, model="m", microbatches=2, arm=arm, site=site, direction="forward", program=program)
        for arm, ran in programs.items()
        for site, program in zip(("entry", "exit"), ran, strict=True)
    ]
    return pl.DataFrame(rows, schema=STAMPS.schema)


def one_run(choice: pl.DataFrame | None = None, stamps: pl.DataFrame | None = None) -> Run:
    rows = [
        *steps("developer", [[100.0, 110.0], [200.0, 220.0], [100.0, 100.0]]),
        *steps("hand_bundled", [[50.0, 55.0], [80.0, 88.0], [50.0, 50.0]]),
        *steps("finalist_1", [[25.0, 27.5], [50.0, 55.0], [25.0, 25.0]]),
        *steps("finalist_2", [[30.0, 33.0], [60.0, 66.0], [30.0, 30.0]]),
        *steps("big_batch", [[10.0, 11.0], [10.0, 11.0], [10.0, 10.0]]),
        *steps("finalist_1", [[5.0, 5.0], [9.0, 9.0]], purpose="quiet"),
    ]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema), choice, stamps)
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


def test_a_finalist_is_an_arm_of_people_only_where_all_of_its_programs_are() -> None:
    same = {"developer": ("a", "b"), "hand_bundled": ("c", "d"), "big_batch": ("c", "d")}
    run = one_run(chosen("finalist_1"), stamps(**same, finalist_1=("c", "d"), finalist_2=("c", "e")))
    assert run.twin_of("finalist_1") == "hand_bundled"
    assert run.twin_of("finalist_2") is None and run.twin_of("hand_bundled") is None
    assert one_run(chosen("finalist_1")).twin_of("finalist_1") is None  # no arm tells its Programs


def test_an_arm_that_runs_the_chosen_programs_is_no_other_arm() -> None:
    same = {"developer": ("a", "b"), "hand_bundled": ("c", "d"), "finalist_1": ("c", "d")}
    other = one_run(chosen("finalist_1"), stamps(**same)).best_other
    assert other is not None and other.name == "developer"


def test_the_best_other_arm_is_surely_faster_before_it_may_be_faster() -> None:
    rows = [
        *steps("finalist_1", [[100.0] * 4] * 5),
        *steps("ddp_4", [[90.0] * 4] * 3 + [[104.0] * 4] * 2),
        *steps("ddp_25", [[92.0] * 4] * 5),
    ]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema), chosen("finalist_1"))
    assert run.best_other is run.arms["ddp_25"]
    assert [name for name, _ in run.faster_frameworks("finalist_1")] == ["ddp_25"]
    assert run.faster_frameworks("ddp_25") == run.faster_frameworks("developer") == ()


def test_launches_in_which_an_arm_was_slower_are_counted() -> None:
    rows = [
        *steps("a", [[100.0, 110.0], [50.0, 60.0], [9.0]]),
        *steps("b", [[90.0, 99.0], [70.0, 70.0], [1, 2]]),
    ]
    (run,) = runs_of(pl.DataFrame(rows, schema=STEPS.schema), None)
    assert run.arms["a"].slower_launches(run.arms["b"]) == (1, 2)


def test_quiet_steps_are_kept_apart_and_the_first_launch_counts() -> None:
    arm = one_run().arms["finalist_1"]
    assert arm.quiet_us == 5
    assert one_run().arms["developer"].quiet_us is None
