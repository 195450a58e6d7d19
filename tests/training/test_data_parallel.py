"""A data-parallel step cut at its gradients: the driver runs two ranks' segments without a library between them."""

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core.configuration import models
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.data_parallel import DataParallelStep
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import StepSegment, Tensor

RANKS, M = 2, 3
MODEL = models.load("nano-dp").changed(layers=2)
RANDOM = torch.Generator().manual_seed(1)
TOKENS = [[torch.randint(MODEL.vocabulary, (1, 9), generator=RANDOM) for _ in range(M)] for _ in range(RANKS)]


class Read(SimpleNamespace):
    """Asks for a gradient."""


def run(step: DataParallelStep, means: list[Tensor]) -> tuple[list[Tensor], list[tuple[Any, int]]]:
    """(gradients as they were read, the last tensor's first; segments in the order in which they ran, each with
    the number of gradients read by then). `means` are what the module writes."""
    read: list[Tensor] = []
    ran: list[tuple[Any, int]] = []

    def noted(segment: StepSegment) -> StepSegment:
        def work(values: Any) -> Any:
            ran.append((segment.name, len(read)))
            return segment.work(values)

        return replace(segment, work=work)

    def module() -> Generator[Any, Any, None]:
        for i in reversed(range(len(means))):
            gradient = yield Read(port=("gradient", i))
            read.append(gradient.clone())
        for i, mean in enumerate(means):
            yield SimpleNamespace(port=("mean", i), value=mean)

    shapes = {("mean", i): (mean.numel(),) for i, mean in enumerate(means)}
    site = SiteModule(site="gradients", generator=module(), read=Read, shapes=shapes)
    run_step([site], [noted(segment) for segment in step.segments()])
    return read[::-1], ran


@pytest.mark.parametrize("in_stages", [False, True])
def test_gradients_are_each_ranks_own_and_means_become_those_of_the_parameters(in_stages: bool) -> None:
    full = Pieces.full_parameters(MODEL, seed=0)
    means = [torch.full((value.numel(),), float(i)) for i, value in enumerate(full.values())]
    own = []
    for tokens in TOKENS:
        step = DataParallelStep(Pieces(MODEL, full), tokens, in_stages=in_stages)
        read, _ = run(step, means)
        own.append(read)
        expected = unsharded_gradients(MODEL, tokens, seed=0)
        for gradient, want in zip(read, expected.values(), strict=True):
            torch.testing.assert_close(gradient, want.flatten())
        for i, parameter in enumerate(step.pieces.parameters.values()):
            assert parameter.grad.equal(torch.full_like(parameter, float(i)))
        with torch.no_grad():
            losses = [float(step.pieces.whole(one)) for one in tokens]
        assert [step.losses[m] for m in range(M)] == pytest.approx(losses, rel=1e-5)
    everywhere = unsharded_gradients(MODEL, [one for tokens in TOKENS for one in tokens], seed=0)
    for mine, theirs, want in zip(*own, everywhere.values(), strict=True):
        torch.testing.assert_close((mine + theirs) / RANKS, want.flatten())


def test_in_stages_a_gradient_is_read_before_the_backward_of_the_blocks_in_front_of_it() -> None:
    full = Pieces.full_parameters(MODEL, seed=0)
    names = list(full)
    means = [torch.zeros(value.numel()) for value in full.values()]
    _, ran = run(DataParallelStep(Pieces(MODEL, full), TOKENS[0], in_stages=True), means)
    read_before = {name: count for name, count in ran if name[0] == "backward"}
    behind = {
        stage: sum(name in ("norm", "head") or name.startswith(blocks) for name in names)
        for stage, blocks in {2: (), 1: ("blocks.1.",), 0: ("blocks.1.", "blocks.0.")}.items()
    }
    assert read_before == {("backward", stage): count for stage, count in behind.items()}
    _, ran = run(DataParallelStep(Pieces(MODEL, full), TOKENS[0], in_stages=False), means)
    assert [name for name, count in ran if not count][:M] == [("microbatch", m) for m in range(M)]
