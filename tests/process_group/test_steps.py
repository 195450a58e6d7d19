"""A step ends with the outermost optimizer that is first done, or left out; one that failed counts nothing."""

import pytest
import torch
from torch.amp import GradScaler

from overlayccl_core.process_group import steps


def test_an_optimizer_whose_step_failed_does_not_hide_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list = []
    monkeypatch.setattr(GradScaler, "step", GradScaler.step)  # it is put back
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


def test_a_step_that_a_gradient_scaler_leaves_out_is_a_step_once_one_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is lost in it is then for the same places of the next one, and no buffer is added."""
    monkeypatch.setattr(GradScaler, "step", GradScaler.step)
    handles, ended = [], []
    for name in ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"):
        hook = getattr(steps, name)
        monkeypatch.setattr(steps, name, lambda of, hook=hook: handles.append(hook(of)))
    steps.at_each_step(lambda: ended.append(1))
    one, other = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    counted, beside = (torch.optim.SGD([it], lr=0.1, foreach=False, fused=False) for it in (one, other))
    scaler, found = GradScaler("cpu", init_scale=2.0), []
    for gradient in (float("inf"), 1.0, float("inf"), 1.0):
        for optimizer, parameter in ((counted, one), (beside, other)):
            optimizer.zero_grad()
            scaler.scale((parameter * gradient).sum()).backward()
            scaler.step(optimizer)
        scaler.update()
        found.append(len(ended))
    for handle in handles:
        handle.remove()
    assert found == [0, 1, 2, 3] and one.isfinite().all()
