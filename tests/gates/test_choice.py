"""What is deployed: the first that passes; the developer's own way where nothing does; always with the reason."""

import re
from typing import Any

import pytest

from overlayccl_core.gates import bench
from overlayccl_core.gates.choice import Choice, Contender, choose
from overlayccl_core.gates.training import judge
from overlayccl_core.gates.verdict import Gate, Outcome, Reason
from overlayccl_core.measuring.statistics import Estimate, Ratio
from tests.gates.training_evidence import steps, trial

RIGHT = (("nano m8", judge(trial())),)
SLOWER = (("nano m8", judge(trial(steps_us=steps(1200.0)))),)
FAST = Ratio(value=2.0, low=1.9, high=2.1)
NESTED = re.compile(r"\([^)]*\(")  # a bracket in a bracket
SAME = Ratio(value=1.0, low=0.97, high=1.03)


def contender(arm: str, **changes: Any) -> Contender:
    verdict = bench.check(Estimate(value=10.0, standard_error=0.1, rounds=12), 1.0)
    fields = {"arm": arm, "candidate": f"{arm}'s", "bench": verdict, "training": (), "speedup": FAST}
    return Contender(**(fields | changes))


DEVELOPER = contender("developer", speedup=Ratio(value=1.0, low=1.0, high=1.0))


def reasons(decided: Choice) -> list[Reason]:
    assert {v.gate for v in decided.verdicts} == {Gate.CHOICE}
    return [v.reason for v in decided.verdicts]


def test_the_first_finalist_that_passes_is_chosen_and_the_others_are_not_needed() -> None:
    decided = choose(
        [contender("finalist_1", training=RIGHT), contender("finalist_2", training=RIGHT), DEVELOPER]
    )
    assert decided.chosen.arm == "finalist_1"
    assert decided.reason == "passes the training gate in nano m8"
    assert reasons(decided) == [Reason.OK, Reason.NOT_NEEDED, Reason.NOT_NEEDED]


def test_a_finalist_that_is_slower_in_the_step_is_passed_over_and_that_is_said() -> None:
    decided = choose(
        [
            contender("finalist_1", training=SLOWER),
            contender("hand_bundled", training=SLOWER),
            contender("finalist_2", training=RIGHT),
            DEVELOPER,
        ]
    )
    assert decided.chosen.arm == "finalist_2"
    first, *others = decided.reason.split("; ")
    assert first == "passes the training gate in nano m8"
    assert [one.partition(": training")[0] for one in others] == [
        "finalist_1 (finalist_1's) is passed over",
        "hand_bundled (hand_bundled's) is passed over",
    ]
    assert others[0].endswith("slower beyond noise")
    assert not NESTED.search(decided.reason)
    assert reasons(decided) == [Reason.NOT_PASSED, Reason.NOT_PASSED, Reason.OK, Reason.NOT_NEEDED]


def test_every_model_that_has_the_case_must_pass() -> None:
    decided = choose([contender("finalist_1", training=(*RIGHT, ("wide m8", SLOWER[0][1]))), DEVELOPER])
    assert decided.chosen.arm == "developer"
    assert "nothing beats the baseline" in decided.reason and "training wide m8" in decided.reason


def test_a_baseline_is_deployed_by_name_where_no_finalist_passes() -> None:
    decided = choose(
        [contender("finalist_1", training=SLOWER), contender("hand_bundled", training=RIGHT), DEVELOPER]
    )
    assert decided.chosen.arm == "hand_bundled"
    assert decided.reason.startswith("hand_bundled, a baseline, is deployed")


def test_without_a_model_the_bench_decides_and_training_is_said_to_be_not_applicable() -> None:
    decided = choose([contender("finalist_1"), DEVELOPER])
    assert decided.chosen.arm == "finalist_1"
    assert "fastest in the bench; training: not applicable" in decided.reason
    for stopped in ({"speedup": SAME}, {"speedup": None}, {"bench": bench.check(None, 1.0)}):
        assert choose([contender("finalist_1", **stopped), DEVELOPER]).chosen.arm == "developer"


def test_a_time_below_the_floor_is_never_chosen_whatever_training_says() -> None:
    impossible = bench.check(Estimate(value=10.0, standard_error=0.1, rounds=12), 11.0)
    decided = choose([contender("finalist_1", bench=impossible, training=RIGHT), DEVELOPER])
    assert decided.chosen.arm == "developer" and "physical floor" in decided.reason
    assert decided.verdicts[0].outcome is Outcome.FAIL


def test_the_developer_must_be_there() -> None:
    with pytest.raises(ValueError, match="last contender must be developer"):
        choose([contender("finalist_1")])
