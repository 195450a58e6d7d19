"""dist_ce: Cases and their messages, the reference against torch's own, the data that it is tried on."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from overlayccl_core import catalog
from overlayccl_core.problems.trial_data import logits as trial_data
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.meaning import TooLarge, evaluate
from overlayccl_core.program.problem import Alike, Direction


def case(ranks: int = 4, tokens: int = 16, words: int = 6, **more: Any) -> Case:
    entry = {"tokens": tokens, "vocabulary": words * ranks, **more}
    return catalog.case("dist_ce", entry, ranks=ranks, ranks_per_node=ranks)


def test_the_loss_is_replicated_and_so_is_its_cotangent() -> None:
    forward, backward = catalog.directions(case())
    for name in ("losses", "mean", "shift", "log_sum"):
        spec = forward.outputs[name,]
        assert (spec.placement, spec.cotangent) == (Placement.REPLICATE, Placement.REPLICATE)
    assert forward.inputs["targets",].dtype is DType.INT64
    assert forward.inputs["targets",].within == (0, 23)
    saved = {port for port, spec in forward.outputs.items() if spec.saved}
    kept = {port for port in backward.inputs if not str(port[0]).startswith("d_")}
    assert saved == {("shift",), ("log_sum",)} and kept == saved | set(forward.inputs)


def test_loss_and_gradient_of_the_reference_are_those_of_torch() -> None:
    """On every kind of data; the backward by autograd of functional.cross_entropy of the whole vocabulary."""
    at = case()
    forward, backward = catalog.directions(at)
    ran = catalog.reference_program(forward), catalog.reference_program(backward)
    assert forward.nonlinear is not None
    for draw in forward.nonlinear.draws(np.random.default_rng(0), True, None):
        inputs = {p: x.astype(np.float64) if x.dtype.kind == "f" else x for p, x in draw.inputs.items()}
        held, _ = evaluate(ran[0].outputs, inputs, Double(), at.ranks)
        whole = inputs["logits",].reshape(4, 16, 6).swapaxes(0, 1).reshape(16, 24)
        logits = torch.tensor(whole, requires_grad=True)
        losses = functional.cross_entropy(logits, torch.tensor(inputs["targets",][0]), reduction="none")
        np.testing.assert_allclose(held["losses",].on(0), losses.detach().numpy(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(held["mean",].on(3), [losses.mean().item()], rtol=1e-12)
        weights = np.linspace(-1, 1, 16)
        (losses.mean() * 2 + (losses * torch.tensor(weights)).sum()).backward()
        given = {("d_losses",): weights[None], ("d_mean",): np.array([[2.0]])}
        saved = {p: held[p].on_all() for p, spec in forward.outputs.items() if spec.saved}
        back, _ = evaluate(ran[1].outputs, {**inputs, **given, **saved}, Double(), at.ranks)
        assert logits.grad is not None
        want = logits.grad.numpy().reshape(16, 4, 6).swapaxes(0, 1).reshape(4, -1)
        np.testing.assert_allclose(back["d_logits",].on_all(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tokens", [1, 5, 256])
def test_every_kind_of_data_is_tried_and_the_target_is_in_every_part(tokens: int) -> None:
    at = case(tokens=tokens)
    nonlinear = catalog.build(at).nonlinear
    assert nonlinear is not None
    labels: list[set[str]] = [set() for _ in range(tokens)]
    high, targets = set(), set()
    for draw in nonlinear.draws(np.random.default_rng(1), True, None):
        whole = draw.inputs["logits",].reshape(4, tokens, 6).swapaxes(0, 1).reshape(tokens, 24)
        for t in range(tokens):
            label = draw.label(("losses",), t)
            labels[t].add(label)
            if trial_data.FAR in label:
                high.add(int(whole[t].argmax()))
                targets.add(int(draw.inputs["targets",][0, t]))
    assert high == targets == set(range(24))
    for of_token in labels:
        kinds = {label.split(", around")[0] for label in of_token}
        assert kinds == {f"of a token with {k}" for k in (*trial_data.KINDS, trial_data.FAR)}
        around = {label.partition(", around ")[2] for label in of_token}
        assert around == {"", "1000", "-1000", "1e+06", "-1e+06"}


def test_tokens_and_words_that_are_computed_alike_are_tried_in_each_other_s_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is computed in a way of its own meets everything by itself, or there are too many draws."""
    nonlinear = catalog.build(case(tokens=64, words=16)).nonlinear
    assert nonlinear is not None

    def draws(parts: list[int], *, evenly: bool) -> int:
        alike = Alike(parts=np.array(parts), evenly=evenly)
        return len(list(nonlinear.draws(np.random.default_rng(1), True, alike)))

    assert draws([0] * 64, evenly=True) == 1 + 17 + 1
    assert draws([0] * 64, evenly=False) == 1 + 17 + 1
    assert draws([0] * 32 + [1] * 32, evenly=False) == 2 + 49 + 2
    assert draws([0] * 63 + [1], evenly=False) == 64 + 80 + 64
    monkeypatch.setattr(trial_data, "LOGITS_DRAWN", 64 * 64 * 100)
    with pytest.raises(TooLarge, match=r"token 63 .* 208 .*limit 100"):
        draws([0] * 63 + [1], evenly=False)


def test_tokens_that_are_computed_apart_do_not_meet_their_kinds_in_step() -> None:
    """Where one is infinite, another is not: in step a mistake of the one would hide in that of the other."""
    nonlinear = catalog.build(case(tokens=6, words=4)).nonlinear
    assert nonlinear is not None
    kinds = {name: number for number, name in enumerate(trial_data.KINDS)}
    apart = Alike(parts=np.arange(6), evenly=True)
    seen = [
        [kinds.get(draw.label(("losses",), t).split(" with ")[1].split(", around")[0], -1) for t in range(6)]
        for draw in nonlinear.draws(np.random.default_rng(1), True, apart)
    ]
    plain = np.array([row for row in seen if min(row) >= 0])
    for other in range(1, 6):
        assert len(set((plain[:, 0] - plain[:, other]) % len(kinds))) > 1


def test_padding_fills_the_parts_of_one_rank_and_of_all_but_one() -> None:
    nonlinear = catalog.build(case(tokens=64, words=16)).nonlinear
    assert nonlinear is not None
    empty = set()
    for draw in nonlinear.draws(np.random.default_rng(1), True, None):
        parts = draw.inputs["logits",].reshape(4, 64, -1)
        empty |= set(np.isneginf(parts).all(2).sum(0).tolist())
    assert empty == {0, 1, 3}


def test_a_declared_range_bounds_the_data_but_for_padding() -> None:
    nonlinear = catalog.build(case(range=60)).nonlinear
    assert nonlinear is not None
    drawn = [draw.inputs["logits",] for draw in nonlinear.draws(np.random.default_rng(1), True, None)]
    assert any(np.isneginf(logits).any() for logits in drawn)
    for logits in drawn:
        assert np.abs(logits[~np.isneginf(logits)]).max() <= 60


@pytest.mark.parametrize("direction", list(Direction))
def test_a_program_travels_as_json(direction: Direction) -> None:
    program = catalog.reference_program(catalog.in_direction(case(range=60), direction))
    read = loads(dumps(program))
    assert read.digest == program.digest and read.problem == program.problem
