"""The end of a training step, in a script that nobody edits: another `step()` of its first optimizer is done."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def at_each_step(end: Callable[[], None]) -> None:
    """Call `end` at the end of each training step.

    Of several optimizers the one that is first done counts, so a step of the script is one step here. Of optimizers
    inside another (ZeRO-1) the outermost counts. A step that a gradient scaler leaves out, because of
    infinities, ends a training step, too, once another was made.
    """
    running: list[Optimizer] = []
    counts: list[Optimizer] = []
    made = 0
    scaled_step = GradScaler.step

    def begins(optimizer: Optimizer, *_: Any) -> None:
        if optimizer in running:  # its last step was left by an error
            del running[running.index(optimizer) :]
        running.append(optimizer)

    def ends(optimizer: Optimizer, *_: Any) -> None:
        nonlocal made
        made += 1
        running.pop()
        if not running:
            counts[:] = counts or [optimizer]
            if counts[0] is optimizer:
                end()

    @wraps(scaled_step)
    def scaled(scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = made
        result = scaled_step(scaler, optimizer, *args, **kwargs)
        if made == before and counts and counts[0] is optimizer:
            end()
        return result

    GradScaler.step = scaled
    register_optimizer_step_pre_hook(begins)
    register_optimizer_step_post_hook(ends)
