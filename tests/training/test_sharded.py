"""Parameters that lie in shards: gathered in the forward pass, gathered again in the backward pass, their gradients
summed and handed out, those of what every rank has averaged. A step's gradients are the whole model's."""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.library import Role, read_library
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import backward_problem, transpose
from overlayccl_core.step.segment import Name, StepSegment
from overlayccl_core.training.segments import Tensor
from overlayccl_core.training.sharded import ShardedStep
from tests.known_cases import case
from tests.training.in_process import programs_of, replayed, run_on_all, worst_error

RANKS, M, L, ROWS, COLUMNS, EXAMPLES = 3, 3, 3, 6, 9, 2
TIERS = "two_step_hierarchical"  # here is one tier
KNOWN_WAYS = [
    name
    for name, role in read_library(catalog.library_source("fsdp_prefetch")).strategies
    if role is not Role.DERIVED and name != TIERS
]
RANDOM = torch.Generator().manual_seed(1)
WEIGHTS = {f"unit_{k}": torch.randn(ROWS, COLUMNS, generator=RANDOM, dtype=torch.float64) for k in range(L)}
ENTRANCE = torch.randn(COLUMNS, generator=RANDOM, dtype=torch.float64)
BATCHES = [
    [torch.randn(EXAMPLES, COLUMNS, generator=RANDOM, dtype=torch.float64) for _ in range(M)]
    for _ in range(RANKS)
]


class Chain:
    """Units of one parameter each behind an entrance: all of them, or a rank's shards."""

    def __init__(self, rank: int = 0, ranks: int = 1, axis: int = 0) -> None:
        self.rank, self.ranks, self.axis = rank, ranks, axis
        full = {"entrance": ENTRANCE, **WEIGHTS}
        self.units = list(WEIGHTS)
        self.parameters = {
            name: self.shard(name, value).clone().requires_grad_() for name, value in full.items()
        }

    def shard(self, name: str, full: Tensor) -> Tensor:
        return full.chunk(self.ranks, self.axis)[self.rank] if name in self.units else full

    def enter(self, batch: Tensor) -> Tensor:
        return batch * self.parameters["entrance"]

    def unit(self, _k: int, weight: Tensor, x: Tensor) -> Tensor:
        return x + torch.tanh(x @ weight.T) @ weight

    def loss(self, x: Tensor, _batch: Tensor) -> Tensor:
        return x.square().mean()


def unsharded_gradients() -> dict[str, Tensor]:
    """Of the mean loss over all ranks' microbatches, for every whole parameter."""
    chain = Chain()
    for batches in BATCHES:
        for batch in batches:
            x = chain.enter(batch)
            for k, name in enumerate(chain.units):
                x = chain.unit(k, chain.parameters[name], x)
            (chain.loss(x, batch) / (RANKS * M)).backward()
    return {name: parameter.grad for name, parameter in chain.parameters.items()}


class Watched(ShardedStep):
    """One rank's step, that notes what ran and how many whole parameters there were."""

    def __init__(self, rank: int, axis: int) -> None:
        super().__init__(Chain(rank, RANKS, axis), BATCHES[rank])
        self.ran: list[Name] = []
        self.most_held = 0
        self._whole: list[Any] = []

    def segments(self) -> Iterator[StepSegment]:
        for segment in super().segments():
            yield replace(segment, work=self._noted(segment))

    def _noted(self, segment: StepSegment) -> Any:
        def work(values: Mapping[Any, Tensor]) -> Any:
            if segment.name[0] in ("forward", "backward"):
                self.ran.append(segment.name)
                self.most_held = max(self.most_held, sum(value() is not None for value in self._whole))
            return segment.work(values)

        return work

    def made(self, value: Any) -> None:
        """A module made a value; that of a whole parameter is watched."""
        if value.size == ROWS * COLUMNS:
            self._whole.append(weakref.ref(value))


def programs(gather: str, regather: str, gradients: str, shards: str = "rows") -> dict[str, Program]:
    """site -> Program, in the order of a step's sites: backward before forward."""
    entry = {"microbatches": M, "layers": L, "shape": [ROWS, COLUMNS], "shards": shards}
    at = case("fsdp_prefetch", entry, ranks=RANKS)
    again = case("fsdp_prefetch", {**entry, "site": "regather"}, ranks=RANKS)
    backward = catalog.backward(at)
    assert backward is not None
    means = case("grad_ar", {"sizes": [COLUMNS]}, ranks=RANKS)
    return {
        "scatter": replayed(backward, gradients),
        "gradients": replayed(catalog.build(means), "one_by_one"),
        "regather": replayed(catalog.build(again), regather),
        "gather": replayed(catalog.build(at), gather),
    }


def trained(of: dict[str, Program], axis: int = 0) -> list[Watched]:
    steps = [Watched(rank, axis) for rank in range(RANKS)]
    run_on_all(of, RANKS, lambda rank: steps[rank].segments(), lambda rank, value: steps[rank].made(value))
    return steps


def assert_gradients(steps: list[Watched]) -> None:
    expected = unsharded_gradients()
    for step in steps:
        for name, parameter in step.pieces.parameters.items():
            want = step.pieces.shard(name, expected[name])
            torch.testing.assert_close(parameter.grad, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shards", ["rows", "columns"])
@pytest.mark.parametrize("way", KNOWN_WAYS)
def test_gradients_are_those_of_the_whole_model(way: str, shards: str) -> None:
    assert_gradients(trained(programs(way, way, way, shards), ("rows", "columns").index(shards)))


@pytest.mark.parametrize(
    "ways",
    [
        ("in_lockstep", "prefetched", "gathered_once"),
        ("one_by_one", "merged_under_512_mib", "prefetched"),
        ("gathered_once", "in_lockstep", "merged_under_512_mib"),
    ],
)
def test_the_three_are_chosen_each_for_itself(ways: tuple[str, str, str]) -> None:
    assert_gradients(trained(programs(*ways)))


def test_one_microbatch_after_another_passes_forward_and_backward() -> None:
    for step in trained(programs("prefetched", "prefetched", "prefetched")):
        assert step.ran == [
            (name, m, layer)
            for m in range(M)
            for name, order in (("forward", range(L)), ("backward", reversed(range(L))))
            for layer in order
        ]


def test_in_lockstep_all_microbatches_pass_a_layer_before_the_next() -> None:
    for step in trained(programs("in_lockstep", "in_lockstep", "in_lockstep")):
        by_layer = [("forward", m, layer) for layer in range(L) for m in range(M)]
        to_the_first_loss = M * (L - 1) + 1
        assert step.ran[:to_the_first_loss] == by_layer[:to_the_first_loss]
        assert [name[2] for name in step.ran if name[0] == "backward"] == [2] * M + [1] * M + [0] * M


def test_no_pass_holds_parameters_that_it_does_not_need_yet() -> None:
    """One in the pass that runs; one waits at the door of the other."""
    for step in trained(programs("one_by_one", "one_by_one", "one_by_one")):
        assert step.most_held == 2


def test_a_replicated_cotangent_would_give_other_gradients() -> None:
    """What the placement says is tried, not only its adjoint: a gradient that is the same everywhere is divided."""
    of = programs("prefetched", "prefetched", "prefetched")
    forward = of["gather"].problem
    wrong = replace(
        forward,
        outputs={p: replace(s, cotangent=Placement.REPLICATE) for p, s in forward.outputs.items()},
    )
    gathered = trace_source(catalog.library_source("fsdp_prefetch"), "prefetched", wrong)
    of["scatter"] = transpose(gathered, backward_problem(wrong))
    with pytest.raises(AssertionError, match="not close"):
        assert_gradients(trained(of))


# ------------------------------------------------------------------------------------- a Llama-like model in shards
MODEL = models.load("nano-fsdp").changed(width=16, hidden=32, heads=4, layers=3, sequence=8)
DEPLOYMENT = load("config/deployments/local.yaml")
OF_ANOTHER_LAYER = '''
from overlayccl_core.program.language import Library, all_gather

def of_another_layer(io, p):
    """The layers' parameters are there, but two of them are taken for one another."""
    fulls = [all_gather(io.read("shard", layer), p.shard_axis) for layer in p.layer_order]
    for m in range(p.microbatches):
        for i, layer in enumerate(p.layer_order):
            io.write("full", m, layer, fulls[max(i, 1)])

LIBRARY = Library(developer="of_another_layer")
'''


@pytest.mark.parametrize("microbatches", MODEL.microbatches)
@pytest.mark.parametrize("way", KNOWN_WAYS)
def test_gradients_of_the_model_are_those_of_the_unsharded_one(way: str, microbatches: int) -> None:
    programs = programs_of(MODEL, DEPLOYMENT, microbatches, {"fsdp_prefetch": way})
    assert worst_error(MODEL, DEPLOYMENT, microbatches, programs) < 1e-7


@pytest.mark.parametrize("site", ["gather", "regather"])
def test_parameters_of_another_layer_are_seen_in_the_gradients_of_both_passes(site: str) -> None:
    programs = programs_of(MODEL, DEPLOYMENT, 2, {})
    programs[site] = trace_source(OF_ANOTHER_LAYER, "of_another_layer", programs[site].problem)
    assert worst_error(MODEL, DEPLOYMENT, 2, programs) > 1e-2


def test_a_mean_over_ranks_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(step: ShardedStep, name: str, values: Mapping[Any, Tensor]) -> Mapping[Any, Tensor]:
        [step.pieces.parameters[name].grad] = values.values()
        return {}

    monkeypatch.setattr(ShardedStep, "_take_shard", summed)
    assert worst_error(MODEL, DEPLOYMENT, 2, programs_of(MODEL, DEPLOYMENT, 2, {})) > 1
