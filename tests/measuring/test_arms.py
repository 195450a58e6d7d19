"""Names of arms: their order of choice, the framework's own, and what stands at a Case with one finalist."""

from overlayccl_core.measuring.arms import (
    BASELINES,
    OF_A_CASE,
    ORDER_OF_CHOICE,
    ArmName,
    at_case,
    framework_arm,
    framework_bucket,
    is_framework,
)
from overlayccl_core.program.library import Role


def test_finalists_are_chosen_first_and_the_developer_last() -> None:
    assert ORDER_OF_CHOICE == ("finalist_1", "finalist_2", "hand_bundled", "single_graph", "developer")
    assert set(ORDER_OF_CHOICE) == set(OF_A_CASE)


def test_a_baseline_is_named_as_the_role_of_its_seed() -> None:
    assert set(BASELINES) == set(Role) - {Role.OTHER}


def test_an_arm_of_the_framework_tells_its_bucket() -> None:
    assert [framework_arm(mib) for mib in (25.0, 0.5)] == ["ddp_25", "ddp_0.5"]
    assert framework_bucket(framework_arm(25.0)) == "25"
    assert not any(is_framework(arm) for arm in ArmName)


def test_one_finalist_stands_in_both_arms_and_two_in_one_each() -> None:
    one = {"developer": 0, "finalist_1": 1}
    assert [at_case(one, arm) for arm in ("developer", "finalist_1", "finalist_2")] == [0, 1, 1]
    assert at_case({**one, "finalist_2": 2}, "finalist_2") == 2
    assert at_case(one, "hand_bundled") is at_case({"developer": 0}, "finalist_2") is None
