"""What tuners draw in place of measuring: odd rounds alone, whole rounds, and every second of them is counted."""

from typing import Any

import numpy as np
import pytest

from overlayccl_core.tuning.recorded import OTHERS, Draws, RecordedCall, both_launches
from tests.tuning.recorded import arms, call

TWO = arms({"native": 1.0}, {1: 1.0, 2: 1.0})


def rows(launch: int, *samples: list[float], **more: Any) -> list[dict[str, Any]]:
    """One launch of the two ways; the script's own call has its family's name in the table."""
    return [
        {
            "launch": launch,
            "candidate": name,
            "samples_us": us,
            "rounds": len(us),
            "repeats": 3,
            "disturbed": False,
        }
        | more
        for name, us in zip(("native", "native_in_2"), samples, strict=False)
    ]


def test_tuners_see_odd_rounds_alone() -> None:
    recorded = RecordedCall.of(TWO, rows(0, [1e9, 1.0] * 6, [1e9, 2.0] * 6))
    draws = Draws(recorded, 0)
    assert {tuple(draws.measure(0, 1)) for _ in range(50)} == {(1.0, 2.0)}
    assert recorded.us.tolist() == [1e9, 1e9]


def test_a_pair_is_of_one_round_and_pays_for_both() -> None:
    us = [float(10 + n) for n in range(12)]
    draws = Draws(RecordedCall.of(TWO, rows(0, us, us)), 0)
    paid = 0.0
    for _ in range(30):
        first, second = draws.measure(0, 1)
        assert first == second
        paid += 3 * (first + second) / 1e6
    assert draws.samples == 60 and draws.seconds == pytest.approx(paid)


def test_seeds_draw_other_rounds_and_one_seed_the_same() -> None:
    recorded = call()

    def drawn(seed: int) -> list[float]:
        draws = Draws(recorded, seed)
        return [draws.measure(0)[0] for _ in range(20)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_only_rounds_that_all_ways_have_count() -> None:
    """Launch 1 lacks a way; in launch 2 one way has fewer rounds."""
    given = [*rows(0, [1.0] * 4, [2.0] * 4), *rows(1, [9.0] * 4), *rows(2, [3.0] * 5, [4.0] * 2)]
    recorded = RecordedCall.of(TWO, given)
    assert recorded.samples_us.tolist() == [[1.0] * 4 + [3.0] * 2, [2.0] * 4 + [4.0] * 2]


@pytest.mark.parametrize("given", [[], rows(0, [1.0], [1.0] * 9)])
def test_too_few_rounds_are_refused(given: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"give tune\.seconds and tune\.again\.seconds more"):
        RecordedCall.of(TWO, given)


def test_the_second_launch_is_kept_apart_also_where_the_first_was_cut_off() -> None:
    """Launch 1 goes on with the first one, and lacks the ways that had all their rounds."""
    three = arms({"native": 1.0}, {1: 1.0, 2: 1.0, 4: 1.0})
    cut_off = rows(0, [1.0] * 4, [2.0] * 4, again=False) + rows(1, [9.0] * 4, again=False)
    others = [row | {"candidate": "native_in_4"} for row in cut_off[1:2]]
    given = [*cut_off, *others, *rows(2, [3.0] * 8, [4.0] * 8, again=True)]
    first, again = both_launches(three, given)
    assert first.arms == three and first.samples_us.tolist() == [[1.0] * 4, [2.0] * 4, [2.0] * 4]
    assert again.arms == three[:2] and again.samples_us.tolist() == [[3.0] * 8, [4.0] * 8]


def test_its_own_way_and_the_fastest_by_all_rounds_are_timed_again() -> None:
    us = np.array([9.0, 5.0, 8.0, 4.0, 6.0, 7.0])[:, None] * np.ones(9)
    us[5, [0, 2, 4]] = 1.0  # the fastest by the even rounds: three of five
    us[2, [1, 3, 5]] = 1.0  # the fastest by the odd rounds
    named = arms({f"f{n}": 1.0 for n in range(6)}, {1: 1.0})
    recorded = RecordedCall(arms=named, samples_us=us, repeats=np.ones(6, np.int64))
    assert OTHERS == 3 and recorded.to_time_again == [0, 1, 3, 4]


def test_a_call_with_few_ways_times_all_again() -> None:
    assert RecordedCall.of(TWO, rows(0, [1.0] * 4, [2.0] * 4)).to_time_again == [0, 1]


def test_samples_are_disturbed_if_most_launches_are() -> None:
    quiet, loud = rows(0, [1.0] * 4, [1.0] * 4), rows(1, [1.0] * 4, [1.0] * 4, disturbed=True)
    assert RecordedCall.of(TWO, loud).disturbed
    assert not RecordedCall.of(TWO, [*quiet, *loud]).disturbed


def test_a_look_is_a_sample_of_each_way() -> None:
    recorded = RecordedCall.of(TWO, rows(0, [1e6] * 4, [2e6] * 4))
    assert recorded.look_s == pytest.approx(9.0)
    assert np.allclose(recorded.regrets, [0.0, 1.0])
