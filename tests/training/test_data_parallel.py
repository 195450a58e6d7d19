"""A data-parallel step cut at its gradients: the driver runs two ranks' segments without a library between them."""

from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.step.driver import SiteModule, run_step
from overlayccl_core.step.segment import StepSegment
from overlayccl_core.training.data_parallel import ChainStage, DataParallelStep
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Tensor
from tests.training.in_process import programs_of, worst_error
from tests.training.test_pipeline_parallel import CHEATS

M = 2
MODEL = models.load("nano-dp").changed(
    width=16, hidden=32, heads=4, layers=2, sequence=8, batch=4, microbatches=(M,), loss_microbatches=M
)
DEPLOYMENT = load("config/deployments/local-2.yaml")


class Read(SimpleNamespace):
    """Asks for a gradient."""


def run(in_stages: bool) -> list[tuple[Any, int]]:
    """Segments in the order in which they ran, each with the number of gradients read by then: the last tensor's is
    read first."""
    pieces = Pieces(MODEL, Pieces.full_parameters(MODEL, seed=0))
    batch = Pieces.batch(MODEL, seed=0, step=0, replica=0)
    step = DataParallelStep(pieces, Pieces.split(batch, M), in_stages=in_stages)
    means = [torch.zeros(value.numel()) for value in pieces.parameters.values()]
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
            read.append(gradient)
        for i, mean in enumerate(means):
            yield SimpleNamespace(port=("mean", i), value=mean)

    shapes = {("mean", i): (mean.numel(),) for i, mean in enumerate(means)}
    site = SiteModule(site="gradients", generator=module(), read=Read, shapes=shapes)
    run_step([site], [noted(segment) for segment in step.segments()])
    return ran


@pytest.mark.parametrize("in_stages", [False, True])
def test_gradients_and_losses_are_those_of_the_unsharded_model_and_a_mean_that_is_forgotten_is_seen(
    in_stages: bool,
) -> None:
    programs = programs_of(MODEL, DEPLOYMENT, M, {})
    assert worst_error(MODEL, DEPLOYMENT, M, programs, early=in_stages) < 1e-7
    programs["gradients"] = trace_source(CHEATS, "keeps_its_own", programs["gradients"].problem)
    assert worst_error(MODEL, DEPLOYMENT, M, programs, early=in_stages) > 1e-2


def test_in_stages_a_gradient_is_read_before_the_backward_of_the_blocks_in_front_of_it() -> None:
    names = list(Pieces.full_parameters(MODEL, seed=0))
    read_before = {name: count for name, count in run(in_stages=True) if name[0] == "backward"}
    behind = {
        stage: sum(name in ("norm", "head") or name.startswith(blocks) for name in names)
        for stage, blocks in {2: (), 1: ("blocks.1.",), 0: ("blocks.1.", "blocks.0.")}.items()
    }
    assert read_before == {("backward", stage): count for stage, count in behind.items()}
    assert [name for name, count in run(in_stages=False) if not count][:M] == [
        ("microbatch", m) for m in range(M)
    ]


def test_a_parameter_of_no_stage_is_refused() -> None:
    stages = [ChainStage(parameters=("a",), run=lambda x, _: x)]
    pieces: Any = SimpleNamespace(parameters=dict.fromkeys(("a", "b"), torch.zeros(1)), stages=lambda: stages)
    with pytest.raises(ValueError, match="no stage has the parameters b"):
        DataParallelStep(pieces, [], in_stages=False)
