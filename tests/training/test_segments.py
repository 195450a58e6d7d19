"""What segments do in torch."""

import torch

from overlayccl_core.training.segments import Recorded


def test_recorded_runs_backward_piece_by_piece() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    x = torch.tensor([1.0, 5.0])
    first = Recorded(lambda v: v * weight, x)
    second = Recorded(lambda v: v.square().sum(), first.values[0])
    [cotangent] = second.backward(torch.tensor(1.0))
    [gradient] = first.backward(cotangent)
    assert gradient.tolist() == [8.0, 90.0]
    assert weight.grad is not None and weight.grad.tolist() == [4.0, 150.0]
