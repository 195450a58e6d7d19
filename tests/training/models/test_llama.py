"""The pieces of a transformer add up to the whole, however it is sharded."""

import math
from itertools import product

import pytest
import torch

from overlayccl_core.configuration import models
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.transformer import ROTARY_BASE, rotated
from overlayccl_core.workloads.llama import Block, Parallelism

MODEL = models.load("nano").changed(layers=2)


def tokens() -> torch.Tensor:
    random = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (2, 17), generator=random)


@pytest.mark.parametrize("block", Block)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_partial_sums_of_all_ranks_are_what_the_unsharded_sublayer_gives(ranks: int, block: Block) -> None:
    model = MODEL.changed(block=block)
    full = Pieces.full_parameters(model, 0)
    whole = Pieces(model, full)
    shares = [Pieces(model, full, rank, ranks) for rank in range(ranks)]
    h = torch.randn(2, 16, MODEL.width, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for at in product(range(whole.sublayers), [h], range(whole.parts)):
            total = sum(share.partial(*at) for share in shares)
            assert torch.allclose(total, whole.partial(*at), atol=1e-5)


@pytest.mark.parametrize("parallelism", [Parallelism.TENSOR, Parallelism.SHARDED])
@pytest.mark.parametrize("ranks", [2, 4])
def test_shards_of_a_parameter_are_the_parameter(ranks: int, parallelism: Parallelism) -> None:
    model = MODEL.changed(parallelism=parallelism)
    for name, full in Pieces.full_parameters(model, 0).items():
        shards = [Pieces.shard(model, name, full, rank, ranks) for rank in range(ranks)]
        if shards[0].shape == full.shape:
            assert all(torch.equal(one, full) for one in shards)
        else:
            assert sum(one.numel() for one in shards) == full.numel()
            assert sorted(torch.cat([one.flatten() for one in shards]).tolist()) == sorted(
                full.flatten().tolist()
            )


def test_flat_parameters_are_those_of_the_model_whose_ranks_have_it_whole() -> None:
    flat, whole = (
        Pieces(model, Pieces.full_parameters(model, 0))
        for model in (MODEL.changed(parallelism=Parallelism.SHARDED), MODEL)
    )
    for k in range(MODEL.layers):
        apart, weights = flat.weights_of(k), whole.weights_of(k)
        assert list(apart) == list(weights)
        assert all(torch.equal(apart[kind], weight) for kind, weight in weights.items())
    with torch.no_grad():
        assert torch.equal(flat.whole(tokens()), whole.whole(tokens()))


def test_a_byte_knows_nothing_of_those_behind_it() -> None:
    pieces = Pieces(MODEL, Pieces.full_parameters(MODEL, 0))
    h = torch.randn(1, 16, MODEL.width, generator=torch.Generator().manual_seed(1))
    changed = h.clone()
    changed[:, 10:] += 1
    with torch.no_grad():
        before, after = pieces.partial(0, h), pieces.partial(0, changed)
    assert torch.equal(before[:, :10], after[:, :10])
    assert not torch.allclose(before[:, 10:], after[:, 10:])


def test_attention_sees_distances_and_not_positions() -> None:
    """Rotary: with equal bytes everywhere the scores depend on the distance alone, so all rows are equal."""
    pieces = Pieces(MODEL, Pieces.full_parameters(MODEL, 0))
    h = torch.ones(1, 16, MODEL.width)
    with torch.no_grad():
        rows = pieces.partial(0, h)[0]
        moved = pieces.partial(0, torch.randn(1, 16, MODEL.width))[0]
    assert torch.allclose(rows, rows[:1].expand_as(rows), atol=1e-5)
    assert not torch.allclose(moved, moved[:1].expand_as(moved), atol=1e-3)


def test_rotation_is_a_multiplication_of_complex_numbers_without_them() -> None:
    heads, channels, sequence = 3, 8, 16
    x = torch.randn(2, sequence, heads * channels, generator=torch.Generator().manual_seed(1))
    frequency = ROTARY_BASE ** (-torch.arange(0, channels, 2) / channels)
    angle = (torch.arange(sequence)[:, None] * frequency).repeat(1, heads)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    given = x.requires_grad_()
    result = rotated(given, channels)
    torch.testing.assert_close(result, turned, rtol=1e-6, atol=1e-6)
    result.backward(result.detach())  # turned back
    torch.testing.assert_close(given.grad, x.detach(), rtol=1e-5, atol=1e-5)
    assert not result.is_complex() and not torch.allclose(turned, x, atol=0.1)


def test_training_on_one_batch_lowers_its_loss_from_that_of_a_guess() -> None:
    model = MODEL.changed(layers=1, width=64, hidden=128)
    pieces = Pieces(model, Pieces.full_parameters(model, 0))
    optimizer = torch.optim.AdamW(pieces.parameters.values(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = pieces.whole(tokens())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.8 * math.log(256)
    assert losses[-1] < 0.5


def test_the_loss_is_the_mean_over_bytes() -> None:
    pieces = Pieces(MODEL, Pieces.full_parameters(MODEL, 0))
    x, batch = torch.randn(1, 16, MODEL.width), tokens()[:1]
    with torch.no_grad():
        each = [pieces.loss(x[:, i : i + 1], batch[:, i : i + 2]) for i in range(16)]
        assert torch.allclose(torch.stack(each).mean(), pieces.loss(x, batch), atol=1e-5)
