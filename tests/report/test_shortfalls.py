"""What is said of measurements that got fewer rounds, or training steps, than they should."""

from pathlib import Path

import polars as pl

from overlayccl_core.configuration.settings import read
from overlayccl_core.report.shortfalls import (
    of_bench,
    of_confirmed,
    of_probes,
    too_few_launches,
    too_few_rounds,
    too_few_steps,
)

SETTINGS = read(Path(__file__).parents[2] / "config/config.yaml")
PROBE = SETTINGS.probe.changed(minimum_rounds=25, maximum_rounds=25, rounds_of_fitted=10)
BENCH = SETTINGS.bench.changed(minimum_rounds=12)
CONFIRM = SETTINGS.confirm.changed(minimum_rounds=6, minimum_steps=4, maximum_steps=8, step_seconds=18)
TRAIN = SETTINGS.train.changed(minimum_steps=4, maximum_steps=8, seconds=20)


def probes(*rows: tuple[str, int]) -> pl.DataFrame:
    """rows: (role, rounds)."""
    return pl.DataFrame(
        [{"role": role, "program": f"{n}", "rounds": rounds} for n, (role, rounds) in enumerate(rows)]
    )


def bench(*rows: tuple[str, int]) -> pl.DataFrame:
    """rows: (Program, rounds)."""
    return pl.DataFrame(
        [
            {"case": "c", "direction": "forward", "program": program, "rounds": n, "status": "timed"}
            for program, n in rows
        ]
    )


def steps(*launches: int) -> pl.DataFrame:
    """launches: the steps of two arms in each."""
    return pl.DataFrame(
        [
            {
                "model": "nano",
                "arm": arm,
                "purpose": purpose,
                "launch": n,
                "steps_us": [1.0] * (count - less),
                "status": "trained",
            }
            for n, count in enumerate(launches)
            for arm in ("developer", "finalist_1")
            for purpose, less in (("timed", 0), ("quiet", 1))
        ]
    )


def test_every_launch_that_confirms_has_a_floor_of_rounds_of_its_own() -> None:
    told = pl.DataFrame({"program": ["a", "a"], "rounds": [6, 5]})
    (short,) = of_confirmed(told, CONFIRM)
    assert (short.of, short.rounds, short.floor) == ("a launch that confirms", 5, 6)
    assert of_confirmed(told.head(1), CONFIRM) == []


def test_intervals_of_too_few_launches_say_nothing_of_another_launch() -> None:
    assert all(part in too_few_launches(2) for part in ("in 2 launches only", "allow for 20%"))
    assert too_few_launches(3) == too_few_launches(0) == ""  # none: all Cases are a model's


def test_steps_that_confirm_name_their_own_setting() -> None:
    said = too_few_steps(steps(4, 4), CONFIRM)
    assert "confirm.step_seconds" in said and "18 a launch" in said


def test_nothing_is_said_where_all_have_their_rounds() -> None:
    assert too_few_rounds(of_probes(probes(("heldout", 25), ("mixed", 10)), PROBE)) == ""
    assert too_few_rounds(of_bench("tp_mlp", bench(("a", 12), ("b", 40)), BENCH)) == ""


def test_the_fewest_of_each_is_told_beside_its_own_floor_and_what_to_give_more_of() -> None:
    text = too_few_rounds(
        [
            *of_probes(probes(("heldout", 24), ("heldout", 18), ("mixed", 10)), PROBE),
            *of_bench("tp_mlp", bench(("a", 7), ("b", 6)), BENCH),
            *of_bench("grad_ar", bench(("a", 12)), BENCH),
        ]
    )
    parts = ("probe 18 of 25", "bench of tp_mlp 7 of 12", "probe.seconds", "bench.seconds")
    assert all(part in text for part in parts) and "grad_ar" not in text


def test_the_probes_of_the_fit_are_held_to_what_they_were_to_get() -> None:
    (short,) = of_probes(probes(("heldout", 30), ("structured", 10), ("mixed", 8)), PROBE)
    assert (short.of, short.rounds, short.floor) == ("probes of the fit", 8, 10)


def test_rounds_of_a_run_that_went_on_in_a_second_launch_are_counted_together() -> None:
    assert of_bench("tp_mlp", bench(("a", 7), ("a", 5), ("b", 12)), BENCH) == []


def test_a_slow_program_that_left_its_race_is_not_short_of_rounds() -> None:
    assert of_bench("tp_mlp", bench(("slow", 6), ("b", 12)), BENCH) == []


def test_training_at_the_fewest_steps_is_said_with_the_launches_and_the_configured_maximum() -> None:
    text = too_few_steps(steps(4, 4, 6), TRAIN)
    parts = ("nano trained 4 steps", "2 of 3 launches", "up to 8", "train.seconds", "20 a launch")
    assert all(part in text for part in parts)


def test_nothing_is_said_of_launches_with_time_for_more_or_where_no_more_was_wanted() -> None:
    assert too_few_steps(steps(5, 8), TRAIN) == ""
    assert too_few_steps(steps(4, 4), TRAIN.changed(maximum_steps=4)) == ""
