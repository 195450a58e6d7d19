"""A tiny model whose parameters lie in shards: gathered in the forward pass, gathered again in the backward pass,
gradients summed and handed out, all three in one step. Its gradients are those of the whole model."""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.library import read_library
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import backward_problem, transpose
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from overlayccl_core.training.segments import Name, Recorded, StepSegment, Tensor, Value
from tests.seed_cases import case
from tests.training.in_process import run_on_all

RANKS, M, L, ROWS, COLUMNS, EXAMPLES = 3, 3, 3, 6, 9, 2
SEEDS = [name for name, _ in read_library(catalog.library_source("fsdp_prefetch")).seeds]
RANDOM = torch.Generator().manual_seed(1)
WEIGHTS = [torch.randn(ROWS, COLUMNS, generator=RANDOM, dtype=torch.float64) for _ in range(L)]
BATCHES = [
    [torch.randn(EXAMPLES, COLUMNS, generator=RANDOM, dtype=torch.float64) for _ in range(M)]
    for _ in range(RANKS)
]


def block(x: Tensor, weight: Tensor) -> Tensor:
    return x + torch.tanh(x @ weight.T) @ weight


def loss(x: Tensor) -> Tensor:
    return x.square().mean() / (RANKS * M)


def unsharded_gradients() -> list[Tensor]:
    """Of the mean loss over all ranks' microbatches, for every whole parameter."""
    weights = [w.clone().requires_grad_() for w in WEIGHTS]
    for batches in BATCHES:
        for x in batches:
            for weight in weights:
                x = block(x, weight)
            loss(x).backward()
    return [w.grad for w in weights]


class ShardedStep:
    """One rank's segments. A block keeps its input alone: the backward runs it once more."""

    def __init__(self, rank: int, axis: int) -> None:
        self.rank, self.axis = rank, axis
        self.gradients: dict[int, Tensor] = {}
        self.ran: list[Name] = []
        self.most_held = 0
        self._inputs: dict[tuple[int, int], Tensor] = {}
        self._cotangents: dict[int, Tensor] = {}
        self._whole: list[Any] = []

    def shard(self, full: Tensor) -> Tensor:
        return full.chunk(RANKS, self.axis)[self.rank].contiguous()

    def segments(self) -> Iterator[StepSegment]:
        for site in ("gather", "regather"):
            shards = {(site, ("shard", layer)): self.shard(w) for layer, w in enumerate(WEIGHTS)}
            yield StepSegment(name=("shards", site), gives=tuple(shards), work=lambda _, given=shards: given)
        for m in range(M):
            for layer in range(L):
                yield StepSegment(
                    name=("forward", m, layer),
                    needs=(("gather", ("full", m, layer)),),
                    after=(("forward", m, layer - 1),) if layer else (),
                    work=partial(self._forward, m, layer),
                )
                yield StepSegment(
                    name=("backward", m, layer),
                    needs=(("regather", ("full", m, layer)),),
                    gives=(("gradients", ("d_full", m, layer)),),
                    after=(("backward", m, layer + 1) if layer + 1 < L else ("forward", m, layer),),
                    work=partial(self._backward, m, layer),
                )
        for layer in range(L):
            needs = (("gradients", ("d_shard", layer)),)
            yield StepSegment(name=("take", layer), needs=needs, work=partial(self._take, layer))

    def _forward(self, m: int, layer: int, v: Mapping[Value, Tensor]) -> dict[Value, Tensor]:
        self._note(("forward", m, layer))
        x = self._inputs.get((m, layer), BATCHES[self.rank][m] if layer == 0 else None)
        self._inputs[m, layer] = x
        [weight] = v.values()
        y = block(x, weight)
        if layer + 1 < L:
            self._inputs[m, layer + 1] = y
        else:
            [self._cotangents[m]] = Recorded(loss, y).backward(torch.ones((), dtype=torch.float64))
        return {}

    def _backward(self, m: int, layer: int, v: Mapping[Value, Tensor]) -> dict[Value, Tensor]:
        self._note(("backward", m, layer))
        [weight] = v.values()
        run = Recorded(block, self._inputs.pop((m, layer)), weight)
        self._cotangents[m], of_weight = run.backward(self._cotangents[m])
        return {("gradients", ("d_full", m, layer)): of_weight}

    def _take(self, layer: int, v: Mapping[Value, Tensor]) -> dict[Value, Tensor]:
        [self.gradients[layer]] = v.values()
        return {}

    def made(self, value: Any) -> None:
        """A module made a value; that of a whole parameter is watched."""
        if value.size == ROWS * COLUMNS:
            self._whole.append(weakref.ref(value))

    def _note(self, name: Name) -> None:
        self.ran.append(name)
        self.most_held = max(self.most_held, sum(value() is not None for value in self._whole))


def programs(gather: str, regather: str, gradients: str, shards: str = "rows") -> dict[str, Program]:
    """site -> Program, in the order of a step's sites: backward before forward."""
    entry = {"microbatches": M, "layers": L, "shape": [ROWS, COLUMNS], "shards": shards}
    at = case("fsdp_prefetch", entry, ranks=RANKS)
    again = case("fsdp_prefetch", {**entry, "site": "regather"}, ranks=RANKS)
    backward = catalog.backward(at)
    assert backward is not None
    return {
        "gradients": replay(Recipe(base=TransposeOf(recipe=Recipe(base=gradients))), backward),
        "regather": replay(Recipe(base=regather), catalog.build(again)),
        "gather": replay(Recipe(base=gather), catalog.build(at)),
    }


def trained(of: dict[str, Program], axis: int = 0) -> list[ShardedStep]:
    steps = [ShardedStep(rank, axis) for rank in range(RANKS)]
    run_on_all(of, RANKS, lambda rank: steps[rank].segments(), lambda rank, value: steps[rank].made(value))
    return steps


def assert_gradients(steps: list[ShardedStep]) -> None:
    for layer, want in enumerate(unsharded_gradients()):
        for step in steps:
            torch.testing.assert_close(step.gradients[layer], step.shard(want), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shards", ["rows", "columns"])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_the_whole_model(seed: str, shards: str) -> None:
    assert_gradients(trained(programs(seed, seed, seed, shards), ("rows", "columns").index(shards)))


@pytest.mark.parametrize(
    "seeds",
    [
        ("in_lockstep", "prefetched", "gathered_once"),
        ("one_by_one", "merged_under_512_mib", "prefetched"),
        ("gathered_once", "in_lockstep", "merged_under_512_mib"),
    ],
)
def test_the_three_are_chosen_each_for_itself(seeds: tuple[str, str, str]) -> None:
    assert_gradients(trained(programs(*seeds)))


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
        _giver={},
    )
    gathered = trace_source(catalog.library_source("fsdp_prefetch"), "prefetched", wrong)
    of["gradients"] = transpose(gathered, backward_problem(wrong))
    with pytest.raises(AssertionError, match="not close"):
        assert_gradients(trained(of))
