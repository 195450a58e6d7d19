"""What is far behind, or slower beyond noise, in the first launches is in no later one. Needs no ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.left_behind import leaving, left_behind
from tests.timing.batches import silent
from tests.training.test_failed_arms import TRAINING, Ranks

Launches = Sequence[Sequence[float]]
NOISE = (1.0, 1.08, 0.95)


def steps(us: float, launches: int = 2, rounds: int = 3) -> Launches:
    return [[us * (1 + 0.02 * number) * noise for noise in NOISE[:rounds]] for number in range(launches)]


def rows(
    arms: Mapping[str, Launches],
    count: int = 1,
    purpose: Purpose = Purpose.TIMED,
    wrong: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[dict[str, Any]]:
    """wrong: arm -> columns of what the first launch saw of it that are not right."""
    for arm, each in arms.items():
        for launch, steps_us in enumerate(each):
            seen = {"gradient_rel_error": None if launch else 3e-7, "matmul_digest": "d"}
            yield {
                "purpose": purpose.value,
                "microbatches": count,
                "arm": arm,
                "launch": launch,
                "steps_us": steps_us,
                **seen,
                **({} if launch else (wrong or {}).get(arm, {})),
            }


def test_what_is_slower_beyond_noise_leaves_and_what_is_close_stays() -> None:
    arms = {"developer": steps(300), "best_known_way": steps(110), "finalist_1": steps(100)}
    assert left_behind(rows(arms)) == {(1, "developer")}


def test_each_count_of_microbatches_has_a_race_of_its_own() -> None:
    whole, split = {"developer": steps(100)}, {"developer": steps(900), "finalist_1": steps(300)}
    assert left_behind([*rows(whole, 1), *rows(split, 8)]) == {(8, "developer")}


def test_nobody_leaves_by_fewer_steps_than_an_interval_needs() -> None:
    arms = {"developer": steps(300, rounds=2), "finalist_1": steps(100, rounds=2)}
    assert left_behind(rows(arms)) == set()
    assert left_behind([]) == set()


def test_nobody_leaves_who_was_slow_in_one_launch_only() -> None:
    arms = {"developer": [[300.0] * 3, [101.0] * 3], "finalist_1": [[100.0] * 3] * 2}
    assert left_behind(rows(arms)) == set()


def test_what_is_far_behind_in_both_launches_leaves_however_noisy_but_the_developers_stays() -> None:
    noisy = [[100.0, 160.0, 130.0], [90.0, 150.0, 128.0]]
    once = [[100.0, 160.0, 130.0], [70.0, 150.0, 101.0]]
    fastest = [[100.0, 100.0, 100.0], [100.0, 101.0, 99.0]]
    arms = {"developer": noisy, "finalist_1": fastest, "finalist_2": noisy, "ddp": noisy, "fsdp": once}
    assert left_behind(rows(arms)) == {(1, "finalist_2"), (1, "ddp")}


def test_what_is_half_as_slow_again_in_the_first_launch_leaves_at_once_but_the_developers_stays() -> None:
    ours = {"finalist_1": [[100.0] * 3], "finalist_2": [[149.0] * 3], "flat": [[151.0] * 3]}
    assert left_behind(rows({"developer": [[400.0] * 16], **ours, "ddp": [[160.0] * 3]})) == {
        (1, "flat"),
        (1, "ddp"),
    }


def test_whoever_left_after_the_first_launch_stays_away_though_another_is_the_fastest_since() -> None:
    arms = {
        "developer": [[300.0] * 3] * 2,
        "finalist_1": [[100.0] * 3, [150.0] * 3],
        "finalist_2": [[140.0] * 3, [80.0] * 3],
        "flat": [[151.0] * 3],
    }

    def before(launch: int) -> Iterator[Mapping[str, Any]]:
        return (row for row in rows(arms) if row["launch"] < launch)

    well = {(1, arm) for arm in arms}
    assert left_behind(before(2)) == {(1, "developer")}
    assert [leaving(number, well, before) for number in (0, 1)] == [set(), {(1, "flat")}]
    assert leaving(2, well, before) == leaving(3, well, before) == {(1, "developer"), (1, "flat")}


def test_whoever_has_left_is_not_the_fastest_of_those_that_went_on() -> None:
    arms = {
        "developer": [[200.0] * 3, [500.0] * 3],
        "finalist_1": [[100.0] * 3, [260.0] * 3],
        "finalist_2": [[130.0] * 3, [340.0] * 3],
        "flat": [[151.0] * 3],  # less than the middle of finalist_1's two
    }
    assert left_behind(rows(arms)) == {(1, "developer"), (1, "finalist_2"), (1, "flat")}


def test_the_frameworks_own_makes_nobody_leave_and_leaves_itself() -> None:
    """Nothing of it can be deployed: what can must be told apart."""
    arms = {"developer": steps(205), "finalist_1": steps(200), "ddp_25": steps(100), "fsdp": steps(900)}
    assert left_behind(rows(arms)) == {(1, "fsdp")}
    assert left_behind(rows({"ddp_25": steps(100)})) == set()


@pytest.mark.parametrize(
    "wrong",
    [{"gradient_rel_error": 0.9}, {"gradient_rel_error": 1e-3}, {"matmul_digest": "other"}],
    ids=["gradients", "gradients as of fewer bits", "matrix products"],
)
def test_what_may_not_be_chosen_makes_nobody_leave(wrong: Mapping[str, Any]) -> None:
    arms = {"developer": steps(205), "finalist_1": steps(200), "finalist_2": steps(100)}
    assert left_behind(rows(arms)) == {(1, "developer"), (1, "finalist_1")}
    assert left_behind(rows(arms, wrong={"finalist_2": wrong})) == set()


def test_steps_without_communication_make_nobody_leave() -> None:
    arms = {"developer": steps(300), "finalist_1": steps(100)}
    assert left_behind(rows(arms, purpose=Purpose.QUIET)) == set()


FOUR = replace(TRAINING, launches=4)
THREE = ("developer, M=2", "finalist_1, M=2", "finalist_2, M=2")


@pytest.mark.parametrize(
    ("training", "later"), [(FOUR, THREE), (replace(FOUR, narrows=True), THREE[1:])], ids=["all", "narrows"]
)
def test_the_first_two_launches_have_all_arms_and_the_others_those_that_are_close(
    training: Training, later: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, ns={"developer": 900})
    found = train(training, tmp_path / ".partial", "train-nano", "", silent)
    assert ranks.launched == [(0, THREE), (1, THREE), (2, later), (3, later)]
    developers = [row["launch"] for row in found if row["arm"] == "developer"]
    assert developers == ([0, 1] if training.narrows else [0, 1, 2, 3])
    assert {row["status"] for row in found} == {"trained"}
    assert train(training, tmp_path / ".partial", "train-nano", "", silent) == found  # all of it is kept
    assert len(ranks.launched) == 4


def test_where_what_is_close_fails_those_that_were_left_behind_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, *THREE[1:], number=2, ns={"developer": 900})
    found = train(replace(FOUR, narrows=True), tmp_path / ".partial", "train-nano", "", silent)
    assert ranks.launched[-2:] == [(2, THREE[:1]), (3, THREE[:1])]
    assert [row["launch"] for row in found if row["arm"] == "developer"] == [0, 1, 2, 3]
    assert {row["arm"] for row in found if row["status"] == "crashed"} == {"finalist_1", "finalist_2"}
