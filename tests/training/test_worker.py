"""What a training worker makes of what it saw; its steps run in test_launches.py."""

import math

import pytest
import torch

from overlayccl_core.training.plan import StepSettings
from overlayccl_core.training.worker import more_steps, relative_error


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
