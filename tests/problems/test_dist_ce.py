"""dist_ce: Cases and their messages, the reference against torch's own, the data that it is tried on."""

from collections.abc import Iterable
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
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.meaning import TooLarge, evaluate
from overlayccl_core.program.problem import Alike, Direction, Draw


def case(ranks: int = 4, tokens: int = 16, words: int = 6, **more: Any) -> Case:
    entry = {"tokens": tokens, "vocabulary": words * ranks, **more}
    return catalog.case("dist_ce", entry, ranks=ranks, ranks_per_node=ranks)


def draws(at: Case, alike: Alike | None = None) -> Iterable[Draw]:
    nonlinear = catalog.build(at).nonlinear
    assert nonlinear is not None
    return nonlinear.draws(np.random.default_rng(1), True, alike)


def test_the_backward_has_what_the_forward_was_given_and_saved() -> None:
    forward, backward = catalog.directions(case())
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
    for draw in draws(at):
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
    labels: list[set[str]] = [set() for _ in range(tokens)]
    high, targets = set(), set()
    for draw in draws(case(tokens=tokens)):
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

    def drawn(parts: list[int], *, evenly: bool) -> int:
        alike = Alike(parts=np.array(parts), evenly=evenly)
        return len(list(draws(case(tokens=64, words=16), alike)))

    assert drawn([0] * 64, evenly=True) == 1 + 17 + 1
    assert drawn([0] * 64, evenly=False) == 1 + 17 + 1
    assert drawn([0] * 32 + [1] * 32, evenly=False) == 2 + 49 + 2
    assert drawn([0] * 63 + [1], evenly=False) == 64 + 80 + 64
    monkeypatch.setattr(trial_data, "LOGITS_DRAWN", 64 * 64 * 100)
    with pytest.raises(TooLarge, match=r"token 63 .* 208 .*limit 100"):
        drawn([0] * 63 + [1], evenly=False)


def test_tokens_that_are_computed_apart_do_not_meet_their_kinds_in_step() -> None:
    """Where one is infinite, another is not: in step a mistake of the one would hide in that of the other."""
    kinds = {name: number for number, name in enumerate(trial_data.KINDS)}
    apart = Alike(parts=np.arange(6), evenly=True)
    seen = [
        [kinds.get(draw.label(("losses",), t).split(" with ")[1].split(", around")[0], -1) for t in range(6)]
        for draw in draws(case(tokens=6, words=4), apart)
    ]
    plain = np.array([row for row in seen if min(row) >= 0])
    for other in range(1, 6):
        assert len(set((plain[:, 0] - plain[:, other]) % len(kinds))) > 1


def test_padding_fills_the_parts_of_one_rank_and_of_all_but_one() -> None:
    empty = set()
    for draw in draws(case(tokens=64, words=16)):
        parts = draw.inputs["logits",].reshape(4, 64, -1)
        empty |= set(np.isneginf(parts).all(2).sum(0).tolist())
    assert empty == {0, 1, 3}


def test_a_declared_range_bounds_the_data_but_for_padding() -> None:
    drawn = [draw.inputs["logits",] for draw in draws(case(range=60))]
    assert any(np.isneginf(logits).any() for logits in drawn)
    for logits in drawn:
        assert np.abs(logits[~np.isneginf(logits)]).max() <= 60


@pytest.mark.parametrize("direction", list(Direction))
def test_a_program_travels_as_json(direction: Direction) -> None:
    program = catalog.reference_program(catalog.in_direction(case(range=60), direction))
    read = loads(dumps(program))
    assert read.digest == program.digest and read.problem == program.problem
