"""Training steps whose tensors are on a device of the real torch_xla: what a rank computes in them is the CPU's.

One process plays one rank of four: emitted modules as they are, but a collective gives what the rank has itself
(`make_quiet`) and a bit more, so that nothing is zero that comes from another rank; on the device through an
all_reduce of torch_xla over this process. So the values mean nothing, and are the same on every device.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from overlayccl_core import loader
from overlayccl_core.backends.plan import MODULES
from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import Model
from overlayccl_core.launching.status import RankStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.training.arm import LEARNING_RATE, ArmState, Modules, mean_loss, unsharded_gradients
from overlayccl_core.training.inspection import Counts, inspect, make_quiet
from overlayccl_core.training.launches import arm_site, module_name
from overlayccl_core.training.pieces import pieces_of
from overlayccl_core.training.plan import Arm, RankRecord, StepSettings, TrainingPlan
from overlayccl_core.training.worker import COLD, COMPILING, _Trainer, relative_error
from tests.backends.torchxla.modules import emit
from tests.training.experts import PLUGINS, experts
from tests.training.in_process import programs_of

DEPLOYMENT = load("config/deployments/standin.yaml")
RANKS, M, STEPS = DEPLOYMENT.ranks, 2, 4
A_BIT = 2**-7
SMALL = {"width": 16, "hidden": 24, "heads": 4, "layers": 2, "sequence": 8, "batch": 4}


def small(name: str) -> Model:
    """A model of config/models, as it is but for its size."""
    model = models.load(name).changed(**SMALL, microbatches=(M,), loss_microbatches=M)
    return model.changed(ddp_buckets_mib=()) if name == "nano-dp" else model


@dataclass(frozen=True, kw_only=True)
class Played:
    """A rank of four as a training step knows it, on torch_xla's device (is_lazy) or on the CPU."""

    is_lazy: bool
    index: int
    folder: Path
    ranks: int = RANKS
    status: RankStatus = field(default_factory=lambda: RankStatus(np.zeros(6, np.int64)))
    library_version: str = ""
    now_ns: Callable[[], int] = time.monotonic_ns

    @property
    def device(self) -> str:
        return str(torch_xla().device()) if self.is_lazy else "cpu"

    def end_call(self) -> None:
        if self.is_lazy:
            torch_xla().sync()

    def force(self) -> None:
        self.end_call()
        if self.is_lazy:
            torch_xla().core.xla_model.wait_device_ops()

    def meet(self) -> None:
        """There is nobody."""

    def make_usual_groups(self) -> None:
        """There are none."""

    def largest(self, *values: float) -> list[float]:
        return list(values)

    def own_part(self, tensor: Any) -> Any:
        return tensor

    def library_calls(self, _operation: str) -> None:
        return None

    def load(self, path: Path, name: str, members: Any) -> ModuleType:
        module: Any = load_module(path, name)
        module.this_rank, module.world_size = (lambda: self.index), (lambda: self.ranks)
        module.boundary = self.end_call
        module.connect(members, on=self.device)
        make_quiet(module)
        for kind in COLLECTIVES:
            if hasattr(module, kind.value):
                setattr(module, kind.value, self._alone(getattr(module, kind.value)))
        return module

    def _alone(self, local: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            mine, work = local(*arguments)
            given = mine + A_BIT
            if self.is_lazy:
                given = torch_xla().core.xla_model.all_reduce("sum", given, groups=[[0]])
            return given, work

        return call


def torch_xla() -> Any:
    """Imported where it is needed, as these tests are collected without it, too."""
    import torch_xla
    import torch_xla.core.xla_model
    import torch_xla.debug.metrics

    return torch_xla


@dataclass(frozen=True, kw_only=True)
class Course:
    losses: list[float]
    parameters: dict[str, torch.Tensor]
    compiled: list[int]  # graphs, after each step
    sent: list[int]  # tensors to the device, after each step
    counts: Counts  # of one more


def written(model: Model, folder: Path, ways: dict[str, str]) -> Arm:
    """An arm whose modules are in a launch's folder."""
    sites = []
    for site, program in programs_of(model, DEPLOYMENT, M, ways).items():
        (folder / module_name(program.digest)).write_text(emit(program))
        sites.append(arm_site(site, program, program.problem.case.members()))
    return Arm(name="developer", microbatches=M, sites=tuple(sites), purposes=tuple(Purpose))


def trained(model: Model, played: Any, ways: dict[str, str]) -> Course:
    """Some steps of a rank."""
    arm = written(model, played.folder, ways)
    state = ArmState(arm, model, Modules.load(arm, played, "of_arm"), played, seed=1)
    losses, compiled, sent = [], [], []
    for number in range(STEPS):
        batch = state.pieces.batch(model, seed=0, step=number, replica=model.replicas(RANKS)[played.index])
        batch = state.pieces.on(played.device, batch)
        given = state.step(batch)
        played.force()
        losses += [] if given is None else [mean_loss(given)]
        compiled.append(_compiled())
        sent.append(_sent())
    parameters = {name: value.detach().cpu() for name, value in state.pieces.parameters.items()}
    counts = inspect(lambda: state.gradients(batch))
    return Course(losses=losses, parameters=parameters, compiled=compiled, sent=sent, counts=counts)


def _compiled() -> int:
    return int(torch_xla().debug.metrics.counter_value("UncachedCompile") or 0)


def _sent() -> int:
    metric = torch_xla().debug.metrics.metric_data("TransferToDeviceTime")
    return int(metric[0]) if metric else 0


def _fallen_back() -> list[str]:
    """Operations that ran on the CPU instead."""
    return [name for name in torch_xla().debug.metrics.counter_names() if name.startswith("aten::")]


@pytest.fixture(autouse=True)
def counted_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    torch_xla().device()  # before the first backward of the process: autograd counts devices then
    torch_xla().debug.metrics.clear_all()


STEPS_OF: dict[str, tuple[Callable[[], Model], int, dict[str, str]]] = {
    "tensor parallel": (lambda: small("nano"), 3, {}),
    "a parallel block": (lambda: small("nano-parallel"), 3, {}),
    "data parallel, stage by stage": (lambda: small("nano-dp"), 3, {}),
    "data parallel, whole": (lambda: small("nano-dp"), 3, {"grad_ar": "flat"}),
    "sharded": (lambda: small("nano-fsdp"), 3, {}),
    "first stage of a pipeline": (lambda: small("nano-pp"), 0, {}),
    "second stage of a pipeline": (lambda: small("nano-pp"), 3, {}),
    "experts": (lambda: experts(experts=RANKS), 3, {}),
}


@pytest.mark.parametrize("of", STEPS_OF)
def test_steps_are_the_cpus_and_compile_no_more_after_the_second(of: str, tmp_path: Path) -> None:
    make, rank, ways = STEPS_OF[of]
    model = make()
    (tmp_path / MODULES).mkdir()
    on_cpu, on_device = (
        trained(model, Played(is_lazy=is_lazy, index=rank, folder=tmp_path), ways)
        for is_lazy in (False, True)
    )
    assert on_device.losses == pytest.approx(on_cpu.losses, rel=1e-6)
    began = pieces_of(model).full_parameters(model, 1)
    for name, value in on_cpu.parameters.items():
        torch.testing.assert_close(on_device.parameters[name], value, rtol=1e-6, atol=2e-6, msg=name)
        moved = value - pieces_of(model).shard(model, name, began[name], rank, RANKS)
        assert moved.abs().max() > LEARNING_RATE, name
    assert on_device.counts.matmuls and on_device.counts.peak_memory_bytes
    assert not _fallen_back()
    assert 0 < on_device.compiled[1] == on_device.compiled[-1]
    assert on_device.sent[-1] - on_device.sent[-2] == 1  # its batch


def test_the_unsharded_models_gradients_are_the_cpus_with_one_graph_for_all_batches(tmp_path: Path) -> None:
    """Two graphs: the first batch makes the gradients, all others add to them."""
    model = small("nano-dp")
    cls = pieces_of(model)
    batches = [cls.batch(model, seed=0, step=0, replica=replica) for replica in range(RANKS)]
    expected = unsharded_gradients(model, batches, seed=1)
    rank: Any = Played(is_lazy=True, index=0, folder=tmp_path)
    given = unsharded_gradients(model, [cls.on(rank.device, one) for one in batches], seed=1, rank=rank)
    for name, gradient in expected.items():
        assert relative_error(given[name], gradient) < 1e-6, name
    assert not _fallen_back()
    assert _compiled() == 2


def test_a_launch_inspects_times_and_validates_as_on_the_cpu(tmp_path: Path) -> None:
    """Losses of all purposes; the steps that compile are kept apart."""
    model = small("nano-dp")
    (tmp_path / MODULES).mkdir()
    arm = written(model, tmp_path, {})
    settings = StepSettings(seconds=0, minimum_steps=2, maximum_steps=2, loss_steps=3, loss_seeds=(0,))
    plan = TrainingPlan(launch=0, ranks=RANKS, model=model, settings=settings, arms=(arm,))

    def records(*, is_lazy: bool) -> list[RankRecord]:
        played: Any = Played(is_lazy=is_lazy, index=0, folder=tmp_path)
        trainer = _Trainer(played, plan)
        trainer.prepare()
        trainer.inspect()
        trainer.time()
        trainer.compare_losses()
        return trainer.records

    on_cpu, on_device = records(is_lazy=False), records(is_lazy=True)
    for mine, its in zip(on_cpu, on_device, strict=True):
        kept_apart = (0, 0) if mine.purpose is Purpose.LOSS else (COLD, COMPILING)
        assert (mine.cold, its.cold) == kept_apart
        both = min(len(mine.losses), len(its.losses))
        assert its.losses[:both] == pytest.approx(mine.losses[:both], rel=1e-5)
        assert its.validation_loss == (mine.validation_loss and pytest.approx(mine.validation_loss, rel=1e-5))
    assert on_device[-1].validation_loss is not None
    seen = on_device[0].inspection
    assert seen is not None and on_cpu[0].inspection is not None
    assert seen.gradient_rel_error == pytest.approx(on_cpu[0].inspection.gradient_rel_error, rel=1e-3)
    assert seen.collectives == sum(count for _, count in seen.calls) > 0
    assert not _fallen_back()
