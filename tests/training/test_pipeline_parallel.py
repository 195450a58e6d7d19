"""A pipeline of two stages: whatever hands over between them, its gradients are those of the unsharded model."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Tier, load
from overlayccl_core.gates import legality
from overlayccl_core.program.library import read_library
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.step.segment import Name, StepSegment
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import averaging
from overlayccl_core.training.worker import relative_error
from overlayccl_core.workloads.llama import Model
from tests.training.in_process import run_on_all

KNOWN_WAYS = [name for name, _ in read_library(catalog.library_source("pp_send_recv")).strategies]
SCHEDULES = ["gpipe", "1f1b"]
TINY = models.load("nano-pp").changed(
    layers=2, width=8, hidden=16, heads=2, sequence=6, batch=4, microbatches=(1, 2, 4), loss_microbatches=1
)
CHEATS = '''
from overlayccl_core.program.language import Library, all_reduce, collective_permute

def swaps_two_gradients(io, p):
    """A gradient goes to the microbatch before or behind its own."""
    half = p.world_size // 2
    pairs = [(r + half, r) for r in range(half)]
    for m in range(p.microbatches):
        io.write("b", m, collective_permute(io.read("a", m), [(r, r + half) for r in range(half)]))
    back = [collective_permute(io.read("ga", m), pairs) for m in range(p.microbatches)]
    for m in range(p.microbatches):
        io.write("gb", m, back[m + 1 - 2 * (m % 2)])

def hands_nothing_back(io, p):
    """Each rank keeps its gradients: the first stage gets the zeros that it handed in."""
    half = p.world_size // 2
    for m in range(p.microbatches):
        io.write("b", m, collective_permute(io.read("a", m), [(r, r + half) for r in range(half)]))
    for m in range(p.microbatches):
        io.write("gb", m, io.read("ga", m))

def sums(io, p):
    for i in p.tensor_order:
        io.write("mean", i, all_reduce(io.read("gradient", i), "sum"))

def keeps_its_own(io, p):
    for i in p.tensor_order:
        io.write("mean", i, io.read("gradient", i))

LIBRARY = Library(developer="swaps_two_gradients", others=("hands_nothing_back", "sums", "keeps_its_own"))
'''


@cache
def programs(model: Model, microbatches: int, ranks: int, **ways: str) -> Mapping[str, Program]:
    """site -> the Program of a known way or of one of CHEATS, backward first."""
    node = Tier(name="node", ranks=ranks)
    deployment = load("config/deployments/local.yaml").changed(
        ranks=ranks, ranks_per_node=ranks, tiers=(node,)
    )
    traced = {}
    for site, case in cases_of_model(model, deployment, microbatches).items():
        name = ways.get(site, {"stages": "send_receive", "gradients": "one_by_one"}[site])
        source = CHEATS if f"def {name}(" in CHEATS else catalog.library_source(case.problem)
        traced[site] = trace_source(source, name, catalog.build(case))
    return traced


class Run:
    """One step of every rank, run through Programs, and how far its gradients are from the unsharded model's."""

    def __init__(self, model: Model, microbatches: int, ranks: int, *, skips: str = "", **ways: str) -> None:
        self.model, self.ranks, self.skips = model, ranks, skips
        full = Pieces.full_parameters(model, seed=1)
        self.shares = [Pieces(model, full, rank, ranks) for rank in range(ranks)]
        replicas = model.replicas(ranks)
        data = {r: Pieces.batch(model, seed=0, step=0, replica=r) for r in sorted(set(replicas))}
        self.batches = list(data.values())
        self.steps = [
            share.step(Pieces.split(data[replica], microbatches), early=False)
            for share, replica in zip(self.shares, replicas, strict=True)
        ]
        self.ran: list[list[Name]] = [[] for _ in range(ranks)]
        run_on_all(programs(model, microbatches, ranks, **ways), ranks, self._segments)

    def _segments(self, rank: int) -> Iterator[StepSegment]:
        def noted(segment: StepSegment) -> StepSegment:
            def work(values: Any) -> Any:
                self.ran[rank].append(segment.name)
                return {} if segment.name[0] == self.skips else segment.work(values)

            return replace(segment, work=work)

        return map(noted, self.steps[rank].segments())

    @property
    def worst(self) -> float:
        """The relative error of the worst parameter of all ranks."""
        expected = unsharded_gradients(self.model, self.batches, seed=1)
        errors = []
        for rank, share in enumerate(self.shares):
            for name, parameter in share.parameters.items():
                want = share.shard(self.model, name, expected[name], rank, self.ranks)
                got = torch.zeros_like(want) if parameter.grad is None else parameter.grad
                errors.append(relative_error(got, want))
        return max(errors)


@pytest.mark.parametrize("microbatches", [1, 2, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("way", KNOWN_WAYS)
def test_gradients_are_those_of_the_unsharded_model(way: str, schedule: str, microbatches: int) -> None:
    model = TINY.changed(schedule=schedule)
    program = programs(model, microbatches, 4, stages=way)["stages"]
    if legality.check(program).passed:
        assert Run(model, microbatches, 4, stages=way).worst < 1e-5
    else:
        assert (way, schedule, microbatches) == ("merged_all_reduce", "1f1b", 4)


@pytest.mark.parametrize("gradients", ["flat", "reduce_back_to_back", "reduce_scatter_all_gather"])
def test_replicas_of_a_stage_average_their_gradients_whatever_averages_them(gradients: str) -> None:
    assert Run(TINY, 2, 4, gradients=gradients).worst < 1e-5


def test_three_pipelines_and_one_alone_have_the_gradients_too() -> None:
    assert Run(TINY, 2, 6).worst < 1e-5
    assert Run(TINY, 2, 2).worst < 1e-5
    assert set(programs(TINY, 2, 2)) == {"stages"}  # one pipeline has nothing to average


@pytest.mark.parametrize("ways", [{"gradients": "sums"}, {"gradients": "keeps_its_own"}])
def test_a_mean_over_replicas_that_is_forgotten_is_seen(ways: dict[str, str]) -> None:
    assert Run(TINY, 2, 4, **ways).worst > 1e-2


def test_a_gradient_of_another_microbatch_is_seen() -> None:
    assert Run(TINY, 4, 4, stages="swaps_two_gradients").worst > 1e-2


def test_a_backward_of_the_first_stage_that_is_skipped_is_seen() -> None:
    assert Run(TINY, 2, 2, skips="first_backward").worst == pytest.approx(1)


def test_the_two_stages_have_all_parameters_and_none_twice() -> None:
    full = Pieces.full_parameters(TINY, 0)
    for ranks in (2, 4, 6):
        for rank in range(ranks // 2):
            mine, others = (set(Pieces(TINY, full, r, ranks).parameters) for r in (rank, rank + ranks // 2))
            assert mine | others == set(full) and not mine & others
            assert {"embedding", "blocks.0.output"} <= mine and {"norm", "head", "blocks.1.output"} <= others
    assert set(Pieces(TINY, full).parameters) == set(full)  # one rank alone has the whole model


def test_the_first_stage_alone_has_no_loss_and_the_second_one_s_is_the_whole_models() -> None:
    run = Run(TINY, 2, 4)
    with torch.no_grad():
        whole = Pieces(TINY, Pieces.full_parameters(TINY, 1))
        want = [[float(whole.whole(one)) for one in Pieces.split(batch, 2)] for batch in run.batches]
    assert [step.losses for step in run.steps[:2]] == [{}, {}]
    assert [[step.losses[m] for m in range(2)] for step in run.steps[2:]] == [
        pytest.approx(x, rel=1e-5) for x in want
    ]


def test_all_ranks_run_the_same_segments_in_the_order_of_the_schedule() -> None:
    for schedule, under_way in (("gpipe", 4), ("1f1b", 2)):
        run = Run(TINY.changed(schedule=schedule), 4, 4)
        assert all(names == run.ran[0] for names in run.ran)
        counts = [0]
        for name in run.ran[0]:
            step = {"first_forward": 1, "first_backward": -1}.get(str(name[0]), 0)
            counts.append(counts[-1] + step)
        assert max(counts) == under_way
        assert [name[0] for name in run.ran[0][-2:]] == ["gradient", "means"]


def test_a_smaller_gradient_is_filled_with_zeros_and_cut_again() -> None:
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.tensor([1.0, 2.0])
    *gradients, means = averaging({"a": parameter}, [("a", 3), (None, 2)], lambda _: ())
    given = {value[1]: x.tolist() for one in gradients for value, x in one.work({}).items()}
    assert given == {("gradient", 0): [1, 2, 0], ("gradient", 1): [0, 0]}
    means.work({value: torch.full((3 - i,), 5.0 + i) for i, value in enumerate(means.needs)})
    assert parameter.grad.tolist() == [5, 5]
