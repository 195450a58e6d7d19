"""An arm's step on one rank, its collectives replaced by what they give there; and when its backward is cut."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration import models
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.step.driver import SiteModule
from overlayccl_core.training.arm import ArmState, Modules, Unsharded, mean_loss, unsharded_gradients
from overlayccl_core.training.inspection import inspect
from overlayccl_core.training.launches import arm_site
from overlayccl_core.training.pieces import pieces_of
from overlayccl_core.training.plan import Arm

MODEL = models.load("nano-dp").changed(layers=1)
TOKENS = torch.randint(256, (6, 9), generator=torch.Generator().manual_seed(1))


class Read(SimpleNamespace):
    """Asks for a gradient."""


class OneRank:
    """The mean over one rank: each gradient as it is."""

    lets_work = False

    def __init__(self, overlap: bool, elements: list[int]) -> None:
        self.overlap = overlap
        self.elements = elements

    def fresh(self) -> list[SiteModule]:
        def module() -> Generator[Any, Any, None]:
            for i in reversed(range(len(self.elements))):
                gradient = yield Read(port=("gradient", i))
                yield SimpleNamespace(port=("mean", i), value=gradient)

        shapes = {("mean", i): (n,) for i, n in enumerate(self.elements)}
        return [SiteModule(site="gradients", generator=module(), read=Read, shapes=shapes)]


@pytest.mark.parametrize(("overlap", "microbatches"), [(False, 3), (True, 3), (True, 1), (False, 6)])
def test_an_arm_has_the_gradients_and_the_loss_of_its_batch_every_step_however_it_is_split(
    overlap: bool, microbatches: int
) -> None:
    expected = unsharded_gradients(MODEL, [TOKENS], seed=3)
    modules: Any = OneRank(overlap, [x.numel() for x in expected.values()])
    arm = Arm(name="developer", microbatches=microbatches)
    rank: Any = SimpleNamespace(index=0, ranks=1, device="cpu", is_lazy=False)
    state = ArmState(arm, MODEL, modules, rank, seed=3)
    with torch.no_grad():
        loss = float(state.pieces.whole(TOKENS))
    for _ in range(2):  # the second does not add to the first
        assert mean_loss(state.gradients(TOKENS)) == pytest.approx(loss, rel=1e-5)
        for name, parameter in state.pieces.parameters.items():
            torch.testing.assert_close(parameter.grad, expected[name])
    losses = [mean_loss(state.step(TOKENS)) for _ in range(3)]
    assert losses[0] == pytest.approx(loss, rel=1e-5)
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("idle", [False, True])
def test_the_steps_of_an_idle_arm_compute_nothing_but_the_first(idle: bool) -> None:
    modules: Any = OneRank(False, [x.numel() for x in unsharded_gradients(MODEL, [TOKENS], seed=3).values()])
    rank: Any = SimpleNamespace(index=0, ranks=1, device="cpu", is_lazy=False)
    state = ArmState(Arm(name="developer", microbatches=1), MODEL, modules, rank, seed=3, idle=idle)
    state.gradients(TOKENS)
    assert (inspect(partial(state.gradients, TOKENS)).matmuls == 0) == idle


def test_the_unsharded_model_trains_as_an_arm_does_and_tells_its_decisions() -> None:
    router = models.load("nano-moe-v").changed(layers=2, width=16, expert_width=8, heads=2, sequence=8)
    rank: Any = SimpleNamespace(device="cpu", is_lazy=False, end_call=lambda: None)
    whole, again = Unsharded(router, rank, seed=3), Unsharded(router, rank, seed=3)
    cls = pieces_of(router)
    batches = [cls.feed(router, seed=0, step=0, rank=r, ranks=2) for r in range(2)]
    first, second = whole.step(batches), whole.step(batches)
    assert [len(one.choices) for one in first] == [2, 2] and not batches[0].choices
    assert not all(map(torch.equal, first[0].choices, second[0].choices))  # it has learned in between
    again.step(first)
    for name, parameter in unsharded_gradients(router, first, seed=3).items():
        mean = again.optimizer.state[again.pieces.parameters[name]]["exp_avg"]
        torch.testing.assert_close(10 * mean, parameter, rtol=1e-4, atol=1e-7)  # of one step, by 0.1


@pytest.mark.parametrize(("device", "is_lazy"), [("cpu", False), ("meta", False), ("meta", True)])
def test_the_optimizer_is_one_kernel_where_there_is_one_and_counts_on_the_device_where_steps_are_recorded(
    device: str, is_lazy: bool
) -> None:
    rank: Any = SimpleNamespace(index=0, ranks=1, device=device, is_lazy=is_lazy)
    modules: Any = OneRank(False, [])
    state = ArmState(Arm(name="developer", microbatches=1), MODEL, modules, rank, seed=3)
    assert {value.device.type for value in state.pieces.parameters.values()} == {device}
    assert state.optimizer.defaults["fused"] == (True if device == "cpu" else None)
    assert state.optimizer.defaults["capturable"] == is_lazy


def test_the_backward_is_cut_into_stages_for_a_module_that_starts_before_it_has_read_everything(
    tmp_path: Path,
) -> None:
    case = catalog.case("grad_ar", {"sizes": [4, 4], "overlap": True}, ranks=2, ranks_per_node=2)
    overlap = {}
    for name in ("one_by_one", "flat"):
        program = trace_source(catalog.library_source("grad_ar"), name, catalog.build(case))
        (tmp_path / f"{name}.py").write_text(emit(program))
        modules = Modules(
            [arm_site("gradients", program, ((0, 1),))],
            {"gradients": load_module(tmp_path / f"{name}.py", name)},
        )
        overlap[name] = modules.overlap
    assert overlap == {"one_by_one": True, "flat": False}
