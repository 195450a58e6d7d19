"""What a training worker makes of what it saw; its steps run in test_launches.py."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core.configuration import models
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training import worker
from overlayccl_core.training.plan import Arm, StepSettings, TrainingPlan
from overlayccl_core.training.worker import COLD, COMPILING, more_steps, relative_error


def test_an_error_that_is_not_a_number_is_the_largest_there_is() -> None:
    want = torch.tensor([3.0, 4.0])
    assert relative_error(want + 1, want) == pytest.approx(2**0.5 / 5)
    assert relative_error(torch.tensor([math.nan, 4.0]), want) == math.inf
    assert max(relative_error(torch.full((2,), math.nan), want), 1e-9) == math.inf


def test_seconds_that_are_left_go_to_what_is_not_slow() -> None:
    settings = StepSettings(seconds=0, minimum_steps=3, maximum_steps=8, loss_steps=0, loss_seeds=())
    assert more_steps([1.0, 0.1, 0.19], 0.9, settings) == [0, 3, 3]
    assert more_steps([1.0, 0.1, 0.19], 50.0, settings) == [0, 5, 5]
    assert more_steps([1.0, 0.1, 0.19], 0.2, settings) == [0, 0, 0]
    assert more_steps([1.0, 0.1, 0.19], -5.0, settings) == [0, 0, 0]
    parts = [True, True, False]  # the third is a part of a step: nobody is slow beside it
    assert more_steps([1.0, 0.9, 0.1], 50.0, settings, timed=parts) == [5, 5, 5]


def test_only_idle_steps_have_an_idle_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer: Any = object.__new__(worker._Trainer)
    trainer.changed = {}
    monkeypatch.setattr(trainer, "state", lambda *_place, idle: idle)
    assert [purpose for purpose in Purpose if trainer._state_for(purpose, 0, 0)] == [Purpose.IDLE]


COMPILE_S = 1000


@pytest.mark.parametrize("is_lazy", [False, True])
def test_steps_that_compile_are_no_samples_and_not_in_the_budget(
    is_lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that steps move: 1 s each; where they are recorded first, the first two compile."""
    now_s = [0.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now_s[0])
    settings = StepSettings(seconds=6, minimum_steps=2, maximum_steps=50, loss_steps=0, loss_seeds=())
    arms = (Arm(name="developer", microbatches=1),)
    plan = TrainingPlan(launch=0, ranks=1, model=models.load("nano-dp"), settings=settings, arms=arms)
    rank: Any = SimpleNamespace(index=0, ranks=1, is_lazy=is_lazy, largest=lambda *values: list(values))
    trainer = worker._Trainer(rank, plan)
    state: Any = None
    course = worker._Course(0, Purpose.TIMED, 0, state, trainer.cold)

    def step(courses: Sequence[Any], order: Sequence[int], number: int) -> None:
        course.starts_ns.append(round(now_s[0] * 1e9))
        now_s[0] += COMPILE_S if is_lazy and number < COMPILING else 1
        course.ends_ns.append(round(now_s[0] * 1e9))

    monkeypatch.setattr(trainer, "_round", step)
    trainer._run([course], settings.minimum_steps, settings.seconds)
    assert trainer.cold == (COMPILING if is_lazy else COLD)
    assert course.step_s == 1
    assert len(course.ends_ns) - trainer.cold == (settings.seconds if is_lazy else settings.seconds - COLD)
