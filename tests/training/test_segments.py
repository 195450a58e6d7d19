"""What segments do in torch."""

import torch

from overlayccl_core.step.segment import StepSegment, Value
from overlayccl_core.training.segments import Recorded, at_once


def test_segments_at_once_work_the_first_time_only() -> None:
    x, y = ("site", ("x",)), ("site", ("y",))
    worked: list[Value] = []

    def work(values: dict[Value, float]) -> dict[Value, float]:
        worked.append(x)
        return {y: values[x] + 1}

    segment, given = StepSegment(name=("add",), needs=(x,), gives=(y,), work=work), {}
    for number in (1.0, 5.0):
        [again] = at_once([segment], given)
        assert again.work({x: number}) == {y: 2.0} and again.needs == (x,)
    assert worked == [x]


def test_recorded_runs_backward_piece_by_piece() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    x = torch.tensor([1.0, 5.0])
    first = Recorded(lambda v: v * weight, x)
    second = Recorded(lambda v: v.square().sum(), first.values[0])
    [cotangent] = second.backward(torch.tensor(1.0))
    [gradient] = first.backward(cotangent)
    assert gradient.tolist() == [8.0, 90.0]
    assert weight.grad is not None and weight.grad.tolist() == [4.0, 150.0]
