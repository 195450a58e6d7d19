"""Names of arms: from the plainest on, the framework's own, and what stands at a Case with one finalist."""

from overlayccl_core.measuring.arms import (
    BASELINES,
    FINALISTS,
    OF_A_CASE,
    ArmName,
    arm_label,
    arm_meaning,
    arms_of,
    at_case,
    least_plain,
    only_problem,
)
from overlayccl_core.program.library import Role


def test_arms_stand_from_the_plainest_on() -> None:
    assert OF_A_CASE[:4] == ("developer", "single_graph", "hand_bundled", "best_known_way")
    assert set(OF_A_CASE[4:]) == set(FINALISTS)


def test_a_baseline_is_named_as_the_role_of_its_known_way() -> None:
    assert set(BASELINES) == set(Role) - {Role.DERIVED, Role.OTHER}


def test_arms_have_words_for_people() -> None:
    for name in (*ArmName, "ddp_25", "fsdp_kept_joined", "only_grad_ar"):
        assert "_" not in arm_label(name).replace("grad_ar", "") and arm_meaning(name)
    assert arm_label("only_grad_ar") == "only grad_ar" and "grad_ar" in arm_meaning("only_grad_ar")
    assert arm_label("fsdp_kept_joined") == "torch FSDP, kept after forward, all units in one"


def test_of_several_arms_the_least_plain_one_counts() -> None:
    assert least_plain(["finalist_1", "developer", "finalist_2", "best_known_way"]) == "finalist_2"


def test_a_finalist_that_a_case_lacks_is_its_first_one() -> None:
    one = {"developer": 0, "finalist_1": 1}
    assert [at_case(one, arm, "tp_mlp") for arm in ("developer", *FINALISTS)] == [0, 1, 1, 1, 1]
    assert at_case({**one, "finalist_2": 2}, "finalist_2", "tp_mlp") == 2
    assert at_case(one, "hand_bundled", "tp_mlp") is at_case({"developer": 0}, "finalist_2", "tp_mlp") is None


def test_of_several_problems_each_also_changes_alone_before_all_do() -> None:
    assert arms_of({"tp_mlp"}) == OF_A_CASE
    several = arms_of({"tp_mlp", "grad_ar"})
    assert several[4:7] == ("only_grad_ar", "only_tp_mlp", "finalist_1")
    assert set(several) - set(OF_A_CASE) == {"only_grad_ar", "only_tp_mlp"}
    assert [least_plain(several[: k + 1]) for k in range(4, 8)] == [
        "only_grad_ar",
        "only_grad_ar",
        "finalist_1",
        "finalist_2",
    ]
    one = {"developer": 0, "finalist_1": 1}
    assert [at_case(one, "only_grad_ar", name) for name in ("grad_ar", "tp_mlp")] == [1, 0]
    assert at_case({"developer": 0}, "only_grad_ar", "grad_ar") is None
    assert [only_problem(arm) for arm in ("only_grad_ar", "finalist_1")] == ["grad_ar", None]
