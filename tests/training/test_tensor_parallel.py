"""A tensor-parallel step cut at its sums: two ranks' segments run side by side, without a library between them."""

import gc
from typing import Any

import torch

from overlayccl_core.configuration import models
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Name
from overlayccl_core.training.tensor_parallel import TensorParallelStep

RANKS = 2
MODEL = models.load("nano")


def test_the_shares_of_two_ranks_have_the_gradients_of_the_whole_and_no_partial_sum_is_overwritten() -> None:
    random = torch.Generator().manual_seed(1)
    tokens = [torch.randint(MODEL.vocabulary, (1, 9), generator=random) for _ in range(2)]
    full = Pieces.full_parameters(MODEL, seed=0)
    shares = [Pieces(MODEL, full, rank, RANKS) for rank in range(RANKS)]
    steps = [TensorParallelStep(share, tokens) for share in shares]
    segments = [{s.name: s for s in step.segments()} for step in steps]
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def sums(name: Name, total: Any = None) -> Any:
        """The sum over ranks of what a segment gives."""
        given = [mine[name].work(dict.fromkeys(mine[name].needs, total)) for mine in segments]
        parts = [part for one in given for part in one.values()]
        seen.extend((part, part.clone()) for part in parts)
        return sum(parts)

    layers = range(2 * MODEL.layers)
    for m in range(len(tokens)):
        total = None
        for layer in layers:
            total = sums(("forward", m, layer), total)
        total = sums(("loss", m), total)
        for layer in reversed(layers):
            total = sums(("backward", m, layer), total)

    expected = unsharded_gradients(MODEL, tokens, seed=0)
    for rank, share in enumerate(shares):
        for name, parameter in share.parameters.items():
            torch.testing.assert_close(parameter.grad, Pieces.shard(MODEL, name, expected[name], rank, RANKS))
    assert all(part.equal(as_given) for part, as_given in seen)


def test_a_step_holds_no_activation_of_a_microbatch_whose_backward_has_run() -> None:
    model = MODEL.changed(layers=1)
    tokens = [torch.zeros(1, 9, dtype=torch.int64) for _ in range(2)]
    step = TensorParallelStep(Pieces(model, Pieces.full_parameters(model, seed=0)), tokens)
    segments = {segment.name: segment for segment in step.segments()}

    def held() -> int:
        shape = (1, 8, model.width)
        return sum(type(one) is torch.Tensor and one.shape == shape for one in gc.get_objects())

    def run(names: list[Name], total: Any = None) -> Any:
        for name in names:  # over one rank the sum is what it gave
            total = next(iter(segments[name].work(dict.fromkeys(segments[name].needs, total)).values()), None)
        return total

    before = held()
    for m in range(len(tokens)):
        total = run([("forward", m, 0), ("forward", m, 1), ("loss", m)])
        assert held() > before
        assert run([("backward", m, 1), ("backward", m, 0)], total) is None
        del total
        assert held() == before
