"""A step ends with the outermost optimizer that is first done; one that failed counts nothing."""

import pytest

from overlayccl_core.process_group import steps


def test_an_optimizer_whose_step_failed_does_not_hide_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list = []
    monkeypatch.setattr(steps, "register_optimizer_step_pre_hook", hooks.append)
    monkeypatch.setattr(steps, "register_optimizer_step_post_hook", hooks.append)
    ended: list[int] = []
    steps.at_each_step(lambda: ended.append(1))
    begins, ends = hooks
    outer, inner = "an optimizer", "one inside"
    for is_done in (True, False, True):
        begins(outer)
        begins(inner)
        if is_done:
            ends(inner)
            ends(outer)
    assert len(ended) == 2
