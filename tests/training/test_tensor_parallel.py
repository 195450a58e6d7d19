"""A tensor-parallel step cut at its sums: two ranks' segments run side by side, without a library between them."""

from typing import Any

import torch

from overlayccl_core import models
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.models.llama import Pieces, full_parameters, shard
from overlayccl_core.training.segments import Name
from overlayccl_core.training.tensor_parallel import TensorParallelStep

RANKS = 2
MODEL = models.load("nano")


def test_the_shares_of_two_ranks_have_the_gradients_of_the_whole_and_no_partial_sum_is_overwritten() -> None:
    random = torch.Generator().manual_seed(1)
    tokens = [torch.randint(MODEL.vocabulary, (1, 9), generator=random) for _ in range(2)]
    full = full_parameters(MODEL, seed=0)
    steps = [TensorParallelStep(Pieces(MODEL, full, rank, RANKS), tokens) for rank in range(RANKS)]
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
    for rank, step in enumerate(steps):
        for name, parameter in step.pieces.parameters.items():
            torch.testing.assert_close(parameter.grad, shard(name, expected[name], rank, RANKS))
    assert all(part.equal(as_given) for part, as_given in seen)
