"""attention: the reference against torch's own, the data that it is tried on, what its Cases refuse."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from overlayccl_core import catalog
from overlayccl_core.problems.trial_data import heads as trial_data
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.problem import Direction, Draw

RANKS, HEADS, SEQUENCE, WIDTH = 4, 5, 16, 6


def case(dtype: str = "float32", **more: int) -> Case:
    entry = {"heads": HEADS, "sequence": SEQUENCE, "head_dim": WIDTH, **more}
    return catalog.case("attention", entry, ranks=RANKS, ranks_per_node=RANKS, dtype=dtype)


def draws(at: Case, direction: Direction = Direction.FORWARD, *, hostile: bool = True) -> Iterable[Draw]:
    nonlinear = catalog.in_direction(at, direction).nonlinear
    assert nonlinear is not None
    return nonlinear.draws(np.random.default_rng(1), hostile, None)


def whole(x: Any) -> Any:
    """[heads, positions, width] of the pieces [ranks, elements]."""
    return x.reshape(RANKS, HEADS, SEQUENCE // RANKS, -1).swapaxes(0, 1).reshape(HEADS, SEQUENCE, -1)


def test_the_backward_has_what_the_forward_was_given_made_and_saved() -> None:
    forward, backward = catalog.directions(case())
    assert {*backward.inputs} == {*forward.inputs, *forward.outputs, ("d_out",)}
    assert [port for port, spec in forward.outputs.items() if spec.saved] == [("lse",)]
    for dtype, of_lse in (
        ("bfloat16", DType.FLOAT32),
        ("float32", DType.FLOAT32),
        ("float64", DType.FLOAT64),
    ):
        for problem in catalog.directions(case(dtype)):
            specs = {**problem.inputs, **problem.outputs}
            assert specs["lse",].dtype is of_lse and specs["out",].dtype.value == dtype


def test_result_and_gradients_of_the_reference_are_those_of_torch() -> None:
    """On every kind of data; torch's are by autograd of attention to the whole sequence."""
    at = case()
    forward, backward = catalog.directions(at)
    ran = catalog.reference_program(forward), catalog.reference_program(backward)
    for draw in draws(at, Direction.BACKWARD):
        inputs = {p: x.astype(np.float64) for p, x in draw.inputs.items()}
        held, _ = evaluate(ran[0].outputs, inputs, Double(), RANKS)
        q, k, v = (torch.tensor(whole(inputs[n,]), requires_grad=True) for n in "qkv")
        want = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        sizes = np.abs(inputs["v",]).max()
        np.testing.assert_allclose(whole(held["out",].on_all()), want.detach(), rtol=1e-9, atol=1e-9 * sizes)
        scores = torch.where(
            torch.ones(SEQUENCE, SEQUENCE, dtype=bool).tril(), q @ k.mT / WIDTH**0.5, -torch.inf
        )
        np.testing.assert_allclose(
            whole(held["lse",].on_all())[..., 0], scores.logsumexp(2).detach(), rtol=1e-12, atol=1e-12
        )
        want.backward(torch.tensor(whole(inputs["d_out",])))
        given = {**inputs, **{p: x.on_all() for p, x in held.items()}}
        back, _ = evaluate(ran[1].outputs, given, Double(), RANKS)
        for name, x in (("d_q", q), ("d_k", k), ("d_v", v)):
            assert x.grad is not None
            got, grad = whole(back[name,].on_all()), x.grad.numpy()
            allowed = 1e-9 * whole(draw.sizes[name,])
            assert (np.abs(got - grad) <= allowed + 1e-9 * np.abs(grad)).all(), (name, draw.label((name,), 0))


def test_every_query_meets_every_kind_and_a_score_far_above_at_every_rank() -> None:
    labels: list[set[str]] = [set() for _ in range(HEADS * SEQUENCE // RANKS)]
    highest: list[set[int]] = [set() for _ in range(HEADS * SEQUENCE)]
    arounds = set()
    for draw in draws(case()):
        q, k = (whole(draw.inputs[n,]) for n in "qk")
        scores = (q @ k.swapaxes(1, 2) / WIDTH**0.5).reshape(-1, SEQUENCE)
        for i in range(len(labels)):
            said = draw.label(("lse",), i)
            labels[i].add(said.partition(", with ")[2].partition(", around")[0])
            arounds.add(said.partition(", around ")[2])
        for i, of_query in enumerate(scores):
            low, high = np.sort(of_query)[-2:]
            if high > low + 1:
                highest[i].add(int(of_query.argmax()) // (SEQUENCE // RANKS))
    kinds = {*trial_data.NAMES, *(f"a score far above the others at rank {r}" for r in range(RANKS))}
    assert all(of_one == kinds for of_one in labels)
    assert sum(ranks == set(range(RANKS)) for ranks in highest) > 0.8 * len(highest)
    assert arounds == {"", "1000", "-1000"}


def test_values_and_cotangents_have_sizes_of_their_own_in_each_head() -> None:
    seen: dict[str, set[float]] = {"v": set(), "d_out": set()}
    for draw in draws(case(), Direction.BACKWARD):
        for name, sizes in seen.items():
            rms = np.sqrt((whole(draw.inputs[name,]).astype(np.float64) ** 2).mean((1, 2)))
            sizes |= {round(np.log2(x)) if x else -np.inf for x in rms}
    for sizes in seen.values():
        assert -np.inf in sizes and max(sizes) >= 19 and min(sizes - {-np.inf}) <= -19


def test_large_cases_have_fewer_draws_and_friendly_data_is_one() -> None:
    assert len(list(draws(case()))) == len(trial_data.NAMES) + RANKS
    assert len(list(draws(case(heads=64, sequence=512, head_dim=128)))) == trial_data.LEAST_DRAWS
    assert len(list(draws(case(), hostile=False))) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("direction", list(Direction))
def test_sixteen_bits_hold_the_data(direction: Direction, dtype: str) -> None:
    for draw in draws(case(dtype), direction):
        assert all(np.isfinite(x.astype(np.float64)).all() for x in draw.inputs.values())


def test_a_sequence_that_does_not_divide_is_refused_with_the_next_that_does() -> None:
    with pytest.raises(
        ValueError, match=r"sequence must divide over the ranks .got 18 over 4.: pad it to 20"
    ):
        case(sequence=18)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_program_travels_as_json(direction: Direction) -> None:
    program = catalog.reference_program(catalog.in_direction(case(), direction))
    read = loads(dumps(program))
    assert read.digest == program.digest and read.problem == program.problem
