"""What is deployed: a ladder from the plainest up, each rung beyond noise; always with the reason."""

from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core.gates import bench
from overlayccl_core.gates.choice import Choice, Contender, choose
from overlayccl_core.gates.training import judge
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Estimate, Ratio
from tests.gates.training_evidence import trial

RIGHT = (("nano m8", judge(trial())),)
WRONG = (("nano m8", judge(trial(gradient_rel_error=0.3))),)


def contender(arm: str, **changes: Any) -> Contender:
    verdict = bench.check(Estimate(value=10.0, standard_error=0.1, rounds=12), 1.0)
    fields = {"arm": arm, "candidate": f"{arm}'s", "bench": verdict, "training": RIGHT, "timed_as": (arm,)}
    return Contender(**(fields | changes))


DEVELOPER = contender("developer")


def decided(
    contenders: list[Contender],
    us: Mapping[str, float],
    *,
    noise: float = 0.02,
    places: tuple[str, ...] = ("nano m8",),
) -> Choice:
    """us: arm -> how long it took, everywhere; noise: half of the relative width of all intervals."""

    def speed(one: Contender, other: Contender) -> dict[str, Ratio | None]:
        value = us[other.arm] / us[one.arm]
        return {p: Ratio(value=value, low=value * (1 - noise), high=value * (1 + noise)) for p in places}

    return choose(contenders, speed)


def reasons(choice: Choice) -> list[Reason]:
    assert {v.gate for v in choice.verdicts} == {Gate.CHOICE}
    return [v.reason for v in choice.verdicts]


def test_each_rung_has_to_be_faster_beyond_noise_than_what_is_chosen_so_far() -> None:
    arms = [DEVELOPER, *map(contender, ("hand_bundled", "best_known_way", "finalist_1"))]
    us = {"developer": 4000.0, "hand_bundled": 1500.0, "best_known_way": 1480.0, "finalist_1": 1000.0}
    choice = decided(arms, us)
    assert choice.chosen.arm == "finalist_1"
    assert reasons(choice) == [Reason.SURPASSED, Reason.SURPASSED, Reason.NOT_FASTER, Reason.OK]
    said = "1.50 (1.47..1.53) times as fast as hand_bundled (hand_bundled's) in nano m8"
    assert choice.reason == choice.verdicts[3].message == said


def test_within_noise_the_plainer_one_is_taken_however_fast_the_median_looks() -> None:
    arms = [DEVELOPER, contender("best_known_way"), contender("finalist_1")]
    us = {"developer": 4000.0, "best_known_way": 1190.0, "finalist_1": 1000.0}
    choice = decided(arms, us, noise=0.25)  # 1.19 (0.89..1.49)
    assert choice.chosen.arm == "best_known_way"
    assert reasons(choice)[2] is Reason.NOT_FASTER
    assert all(part in choice.reason for part in ("finalist_1 (", "1.19 (0.89..1.49)", "not faster"))


def test_one_that_is_slower_is_said_to_be_slower() -> None:
    arms = [DEVELOPER, contender("hand_bundled"), contender("finalist_1")]
    choice = decided(arms, {"developer": 4000.0, "hand_bundled": 1000.0, "finalist_1": 1200.0})
    assert choice.chosen.arm == "hand_bundled"
    assert choice.verdicts[2].message.endswith("slower beyond noise")


def test_arms_that_were_trained_as_one_in_a_model_have_no_ratio_there() -> None:
    same = Ratio(value=1.0, low=1.0, high=1.0)
    faster = Ratio(value=1.5, low=1.4, high=1.6)
    arms = [DEVELOPER, contender("finalist_1")]
    choice = choose(arms, lambda _one, _other: {"nano m1": same, "nano m4": faster})
    said = "the same modules as developer (developer's) in nano m1, 1.50 (1.40..1.60) times as fast as"
    assert choice.reason.startswith(said)


def test_too_few_rounds_for_an_interval_leave_the_developers_own_way() -> None:
    arms = [DEVELOPER, contender("finalist_1")]
    choice = choose(arms, lambda _one, _other: {"the bench": Ratio(value=1.29)})
    assert choice.chosen.arm == "developer"
    assert all(part in choice.reason for part in ("nothing is faster", "1.29 (too few rounds)"))


def test_what_a_gate_before_stopped_is_no_rung() -> None:
    impossible = bench.check(Estimate(value=10.0, standard_error=0.1, rounds=12), 11.0)
    us = {"developer": 4000.0, "hand_bundled": 1500.0, "finalist_1": 1000.0}
    for stopped, said in (
        ({"bench": impossible}, "physical floor"),
        ({"training": WRONG}, "a gradient is 0.3"),
    ):
        choice = decided([DEVELOPER, contender("hand_bundled"), contender("finalist_1", **stopped)], us)
        assert choice.chosen.arm == "hand_bundled" and said in choice.reason
        assert (choice.verdicts[2].outcome, choice.verdicts[2].reason) == (Outcome.FAIL, Reason.NOT_PASSED)


def test_what_later_launches_left_behind_is_no_rung() -> None:
    """Its ratios are of few steps: it would stand there though others are far faster."""
    arms = [DEVELOPER, contender("best_known_way", left_behind=True), contender("finalist_1")]
    choice = decided(arms, {"developer": 4000.0, "best_known_way": 1300.0, "finalist_1": 1000.0}, noise=0.4)
    assert choice.chosen.arm == "finalist_1"
    assert reasons(choice) == [Reason.SURPASSED, Reason.NOT_FASTER, Reason.OK]
    assert "first launches" in choice.verdicts[1].message


def test_every_model_that_has_the_case_must_pass_and_none_may_be_slower() -> None:
    both = (*RIGHT, ("wide m8", WRONG[0][1]))
    us = {"developer": 4000.0, "finalist_1": 1000.0}
    choice = decided([DEVELOPER, contender("finalist_1", training=both)], us)
    assert choice.chosen.arm == "developer" and "training wide m8" in choice.reason
    faster, same = Ratio(value=1.5, low=1.4, high=1.6), Ratio(value=1.0, low=0.97, high=1.03)
    maybe = Ratio(value=1.0, low=0.9, high=1.1)
    for second, arm in (
        (faster, "finalist_1"),
        (same, "finalist_1"),
        (maybe, "developer"),
        (None, "developer"),
    ):
        speeds = {"nano m8": faster, "wide m8": second}
        choice = choose([DEVELOPER, contender("finalist_1")], lambda _one, _other, s=speeds: s)
        assert choice.chosen.arm == arm, second


def test_the_same_program_contends_once_as_the_plainest() -> None:
    us = {"developer": 4000.0, "hand_bundled": 1000.0, "best_known_way": 900.0, "finalist_1": 900.0}
    same = {"candidate": "hand_bundled's", "timed_as": ("hand_bundled",)}
    arms = [
        DEVELOPER,
        contender("hand_bundled"),
        contender("best_known_way", **same),
        contender("finalist_1", **same),
    ]
    choice = decided(arms, us)
    assert choice.chosen.arm == "hand_bundled"
    assert reasons(choice)[2:] == [Reason.SAME_PROGRAM] * 2


def test_what_was_not_timed_stays_below() -> None:
    choice = choose([DEVELOPER, contender("finalist_1")], lambda _one, _other: {"nano m8": None})
    assert choice.chosen.arm == "developer"
    assert all(part in choice.reason for part in ("not timed beside dev", "nano m8"))
    assert choose([DEVELOPER, contender("finalist_1")], lambda _one, _other: {}).chosen.arm == "developer"


def test_the_developer_must_be_there() -> None:
    with pytest.raises(ValueError, match=r"first .*be developer"):
        choose([contender("finalist_1")], lambda _one, _other: {})
