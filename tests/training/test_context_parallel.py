"""A context-parallel step, cut at its attention: all ranks run their segments without a library between them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.step.segment import Name, StepSegment
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.workloads.llama import Block
from tests.training.in_process import problem_at, replayed, run_on_all, worst_error

M, LAYERS = 2, 2
SMALL: dict[str, Any] = {"width": 16, "hidden": 32, "heads": 4, "layers": LAYERS, "sequence": 8, "batch": 4}
KEYS = models.load("nano-context").changed(microbatches=(1, M), **SMALL)
ATTENTION = models.load("nano-attention").changed(microbatches=(1, M), **SMALL)
RING = models.load("nano-ring").changed(microbatches=(1, M), **SMALL)
TWO = load("config/deployments/local-2.yaml")
FOUR = load("config/deployments/local.yaml")
WAYS = {"gathered": "gathered_and_scattered", "ring": "ring_of_gradients", "ulysses": "ulysses_backward"}
CHEATS = '''
from overlayccl_core.program.language import slice_axis

def keeps_its_own(io, p):
    """A rank's own queries alone decide the gradients of its keys and values."""
    _, positions, _ = p.shard_shape
    for slot in range(p.slots):
        whole = io.read("d_full", slot)
        io.write("d_shard", slot, slice_axis(whole, 1, [r * positions for r in range(p.world_size)], positions))

def returns_its_own(io, p):
    """The gradient of what came from the rank before stays here."""
    io.write("d_given", io.read("d_received"))

def swaps_two(io, p):
    """The gradients of keys and of values are taken for each other."""
    d_out, q, k, v, out, lse = [io.read(name) for name in ("d_out", "q", "k", "v", "out", "lse")]
    io.write("d_q", q)
    io.write("d_k", v)
    io.write("d_v", k)
'''


def programs(
    model: Model, deployment: Deployment, microbatches: int, way: str = "gathered", back: str = ""
) -> dict[str, Program]:
    """Of each site; `back`: a cheat in place of the backward."""
    cases = cases_of_model(model, deployment, microbatches)
    made: dict[str, Program] = {}
    for site in sites_of(model, microbatches, deployment.ranks):
        problem = problem_at(cases[site.name], site.direction)
        is_backward = site.direction is Direction.BACKWARD
        if is_backward and back:
            made[site.name] = trace_source(CHEATS, back, problem)
        elif site.problem == "attention":
            made[site.name] = replayed(problem, WAYS[way] if is_backward else way)
        else:
            made[site.name] = replayed(
                problem,
                {"ring_kv": "per_slot", "all_to_next": "direct", "grad_ar": "one_by_one"}[site.problem],
            )
    return made


@pytest.mark.parametrize("block", Block)
@pytest.mark.parametrize("deployment", [TWO, FOUR], ids=["two", "four"])
@pytest.mark.parametrize("microbatches", [1, M])
@pytest.mark.parametrize(
    ("cut", "way"), [(KEYS, ""), (RING, ""), *((ATTENTION, way) for way in WAYS)], ids=["keys", "hops", *WAYS]
)
def test_gradients_and_losses_are_those_of_the_unsharded_model(
    cut: Model, way: str, microbatches: int, deployment: Deployment, block: Block
) -> None:
    model = cut.changed(block=block)
    assert worst_error(model, deployment, microbatches, programs(model, deployment, microbatches, way)) < 1e-7


@pytest.mark.parametrize(
    ("model", "cheat"), [(KEYS, "keeps_its_own"), (RING, "returns_its_own"), (ATTENTION, "swaps_two")]
)
def test_a_wrong_exchange_of_gradients_is_seen(model: Model, cheat: str) -> None:
    assert worst_error(model, TWO, 1, programs(model, TWO, 1, back=cheat)) > 1e-2


@pytest.mark.parametrize(("model", "function"), [(KEYS, "opened"), (KEYS, "attended"), (ATTENTION, "opened")])
def test_a_rank_that_takes_its_positions_for_the_first_ones_is_seen(
    model: Model, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = getattr(Pieces, function)

    def mistaken(pieces: Pieces, *given: Any) -> Any:
        first, pieces.first_position = pieces.first_position, 0
        try:
            return honest(pieces, *given)
        finally:
            pieces.first_position = first

    monkeypatch.setattr(Pieces, function, mistaken)
    assert worst_error(model, TWO, 1, programs(model, TWO, 1)) > 1e-3


def ran(model: Model) -> list[Name]:
    """What the first rank's step did, in that order; gradients are averaged as they come."""
    order: list[Name] = []

    def noted(segment: StepSegment) -> StepSegment:
        def work(values: Mapping[Any, Any]) -> Any:
            order.append(segment.name)
            return segment.work(values)

        return replace(segment, work=work)

    full = Pieces.full_parameters(model, 0)
    batches = Pieces.split(Pieces.batch(model, seed=0, step=0, replica=0), M)
    steps = [Pieces(model, full, rank, 2).step(batches, early=True) for rank in range(2)]
    run_on_all(
        programs(model, TWO, M),
        2,
        lambda rank: steps[rank].segments() if rank else map(noted, steps[rank].segments()),
    )
    return order


@pytest.mark.parametrize("model", [KEYS, RING, ATTENTION], ids=["keys", "ring", "attention"])
def test_a_microbatch_goes_back_before_the_next_one_enters(model: Model) -> None:
    stretches = [name for name in ran(model) if name[0] in ("forward", "backward")]
    assert stretches == [
        step
        for m in range(M)
        for step in (
            *(("forward", m, k) for k in range(LAYERS + 1)),
            *(("backward", m, k) for k in reversed(range(LAYERS))),
        )
    ]


def test_a_gradient_is_there_once_the_last_microbatch_has_gone_back_through_its_parameter() -> None:
    names, order = list(Pieces.full_parameters(KEYS, 0)), ran(KEYS)
    pieces = Pieces(KEYS, Pieces.full_parameters(KEYS, 0))
    for stretch in range(LAYERS):
        of_stretch = [("gradient", names.index(name)) for name in names if pieces.stretch_of(name) == stretch]
        given = [order.index(gradient) for gradient in of_stretch]
        complete = order.index(("backward", M - 1, stretch))
        assert of_stretch and min(given) > complete
        in_front = [order.index(("backward", M - 1, k)) for k in range(stretch)]
        assert all(max(given) < k for k in in_front), "an exchange can run beside the rest of the backward"
