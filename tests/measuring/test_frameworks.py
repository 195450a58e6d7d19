"""The framework's own arms: their names, words and settings."""

import pytest

from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.measuring.frameworks import WAYS, Framework, arms_of_framework, ddp_arm, framework_arm


def test_no_arm_with_a_program_is_the_frameworks() -> None:
    assert not any(is_framework(arm) for arm in (*ArmName, "only_grad_ar"))
    assert all(is_framework(arm) for arm in (*WAYS, "ddp_25"))


@pytest.mark.parametrize(
    ("buckets", "name", "words", "caps"),
    [
        (25.0, "ddp_25", "torch DDP, 25 MiB", {"bucket_cap_mb": 25.0}),
        ((0.5, 1, 4), "ddp_0.5_1_4", "torch DDP, 0.5, 1, 4 MiB", {"bucket_cap_mb_list": [0.5, 1.0, 4.0]}),
    ],
)
def test_buckets_of_ddp_stand_in_the_name(
    buckets: float | tuple[float, ...], name: str, words: str, caps: dict[str, object]
) -> None:
    assert ddp_arm(buckets) == name
    arm = framework_arm(name)
    assert arm is not None and arm.framework is Framework.DDP and arm.words == words
    assert arm.settings == {**caps, "gradient_as_bucket_view": True}


def test_what_is_declared_is_an_arm_once() -> None:
    assert sorted(name for one in Framework for name in arms_of_framework(one)) == sorted(WAYS)
    settings = [(way.framework, sorted(way.settings.items())) for way in WAYS.values()]
    assert all(settings.count(one) == 1 for one in settings)
    assert len({way.words for way in WAYS.values()}) == len(WAYS)
