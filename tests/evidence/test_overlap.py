"""What overlap is worth, from steps taken apart: planted times, and what is said of them."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.overlap import Apart, Overlap, overlap_of, to_take_apart
from overlayccl_core.evidence.splits import splits_of
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS
from tests.rows import row

COMPUTING, CALLS = 40_000.0, 30_000.0
NOISE = (1.0, 1.01, 0.99, 1.005)  # launch by launch
Times = dict[str, float]


def steps_of(arm: str, of: Times) -> list[dict[str, Any]]:
    """Four launches of an arm: purpose -> time of a step."""
    return [
        row(
            CONFIRMED_STEPS,
            **{"model": "nano", "microbatches": 2, "arm": arm, "purpose": purpose, "launch": launch},
            **{"seed": launch, "steps_us": [us * noise, us * noise, us * noise], "status": "trained"},
        )
        for purpose, us in of.items()
        for launch, noise in enumerate(NOISE)
    ]


def found(**arms: Times) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables of launches; `overlap` in an arm's name says that it does."""
    steps = [one for arm, of in arms.items() for one in steps_of(arm, of)]
    stamps = [
        row(
            CONFIRMED_STAMPS,
            **{"model": "nano", "microbatches": 2, "arm": arm, "ran_as": arm, "site": "exit"},
            overlaps="overlap" in arm,
        )
        for arm in arms
    ]
    return pl.DataFrame(steps, schema=CONFIRMED_STEPS.schema), pl.DataFrame(
        stamps, schema=CONFIRMED_STAMPS.schema
    )


def apart(step_us: float, waited_us: float | None = None) -> Times:
    parts = {Purpose.TIMED: step_us, Purpose.QUIET: COMPUTING, Purpose.IDLE: CALLS}
    return parts if waited_us is None else parts | {Purpose.WAITED: waited_us}


def worth(own_us: float = 100_000, **steps: float) -> Overlap:
    """own_us: What the calls of an arm that overlaps take with each waited for."""
    arms = {arm: apart(us, own_us if "overlap" in arm else None) for arm, us in steps.items()}
    told = overlap_of("nano", found(**arms)[0])
    assert told is not None
    return told


@pytest.mark.parametrize(("step_us", "hidden"), [(70_000, 0.0), (55_000, 0.5), (40_000, 1.0), (85_000, -0.5)])
def test_the_hidden_share_is_what_does_not_lengthen_the_step(step_us: float, hidden: float) -> None:
    one = worth(overlaps=step_us).overlapped
    assert one is not None and one.hidden.value == pytest.approx(hidden, abs=0.02)
    assert one.hidden.low is not None and one.hidden.low <= one.hidden.value
    assert one.most_hidden == 1.0  # computing is longer than the calls
    assert one.over_bound is not None and one.over_bound.value == pytest.approx(step_us / COMPUTING, rel=0.02)


@pytest.mark.parametrize(
    ("waits", "overlaps", "said"),
    [
        (
            70_000,
            55_000,
            "nano: overlap pays: 1.27 (1.27..1.27) times as fast as waiting; hiding all .* most 1.38",
        ),
        (70_000, 41_000, "nano: overlap pays: .*; no more can be hidden"),
        (
            70_000,
            90_000,
            "nano: overlap does not pay: 0.78 (0.78..0.78) times as fast as waiting; hiding all",
        ),
        (70_000, 70_500, "nano: overlap and waiting cannot be told apart: 0.99"),
    ],
)
def test_the_verdict_says_whether_it_pays_and_whether_more_would(
    waits: float, overlaps: float, said: str
) -> None:
    escaped = said.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(AssertionError, match=f"^{escaped}"):
        raise AssertionError(worth(waits=waits, overlaps=overlaps).said)


def test_of_several_arms_the_fastest_of_each_kind_is_compared() -> None:
    told = worth(waits=70_000, slower=80_000, overlaps=60_000, overlaps_worse=65_000)
    assert told.waited is not None and told.overlapped is not None
    assert (told.waited.arm, told.overlapped.arm) == ("waits", "overlaps")


@pytest.mark.parametrize(("own_us", "waits", "gain"), [(90_000, 75_000, 1.25), (66_000, 75_000, 1.1)])
def test_overlap_has_to_beat_the_other_arm_and_its_own_calls_waited_for(
    own_us: float, waits: float, gain: float
) -> None:
    told = worth(own_us=own_us, waits=waits, overlaps=60_000)
    assert told.gain is not None and told.gain.value == pytest.approx(gain, rel=0.01)


def test_its_own_calls_waited_for_are_enough_to_tell() -> None:
    told = worth(own_us=75_000, overlaps=60_000)
    assert told.waited is None and told.gain is not None
    assert told.gain.value == pytest.approx(1.25, rel=0.01)


def test_without_an_overlapping_arm_it_was_not_tried() -> None:
    told = worth(waits=70_000)
    assert told.gain is None and told.said.startswith(
        "nano: overlap was not tried; hiding all that can be hidden"
    )


def test_launches_that_differ_leave_open_whether_more_could_be_hidden() -> None:
    steps = {launch: (us,) for launch, us in enumerate((40.0, 60.0, 50.0))}
    parts = {launch: (45.0,) for launch in steps}
    one = Apart(
        **{"model": "nano", "microbatches": 1, "arm": "developer"},
        **{"step": steps, "computing": parts, "calls": parts},
    )
    assert (
        "; whether more could be hidden cannot be told: at most 1.11 ("
        in Overlap(model="nano", waited=one, overlapped=None).said
    )


def test_where_no_step_was_taken_apart_there_is_no_verdict() -> None:
    assert overlap_of("nano", found(waits={Purpose.TIMED: 70_000})[0]) is None


def test_the_arms_that_are_taken_apart_are_the_fastest_as_trained() -> None:
    us = {"developer": 7.0, "hand_bundled": 6.0, "finalist_overlap": 9.0}
    steps, stamps = found(**{arm: {Purpose.TIMED: of} for arm, of in us.items()})
    stamps = stamps.with_columns(program=pl.col("arm"))
    trained = splits_of("nano", steps, stamps)
    assert to_take_apart(trained, stamps) == {
        (2, "hand_bundled"): (Purpose.QUIET, Purpose.IDLE),
        (2, "finalist_overlap"): (Purpose.QUIET, Purpose.IDLE, Purpose.WAITED),
    }
