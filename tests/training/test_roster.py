"""Which arms of a model a launch runs."""

import pytest

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.training.roster import Roster


@pytest.mark.parametrize(("name", "has_them"), [("local", True), ("standin", False)])
@pytest.mark.parametrize("model", ["nano-dp", "nano-fsdp"])
def test_the_frameworks_own_arms_are_where_the_backend_can_run_them(
    model: str, name: str, has_them: bool
) -> None:
    deployment, asked = load(f"config/deployments/{name}.yaml"), models.load(model)
    arms = Roster(asked, deployment, backend_of(deployment), [])
    arms.add_framework(2)
    assert [arm.name for arm in arms.arms] == (list(asked.framework_arms) if has_them else [])
    assert asked.framework_arms
