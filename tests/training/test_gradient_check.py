"""A wrong gradient is seen in whichever parameter, on whichever rank: also where all others are right."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.models import Model
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.training.arm import Unsharded, unsharded_gradients
from overlayccl_core.training.launches import rows_of, train
from overlayccl_core.training.pieces import Module, pieces_of
from overlayccl_core.training.plan import Arm, Inspection, StepSettings, TrainingPlan
from overlayccl_core.training.segments import Tensor
from overlayccl_core.training.worker import _Trainer
from tests.timing.batches import silent
from tests.training.arms_by_hand import RANKS, Arms, failures
from tests.training.test_rows import record

WHOLE = models.load("nano-dp").changed(layers=1, batch=1, microbatches=(1,), loss_microbatches=1)
EXPERTS = models.load("nano-moe-v").changed(layers=1, batch=1)
SETTINGS = StepSettings(seconds=0, minimum_steps=1, maximum_steps=1, loss_steps=0, loss_seeds=())
WRONG = {Reason.WRONG_GRADIENT}
Gradients = dict[str, Tensor]
CHEATS = '''
from overlayccl_core.program.language import Library, all_reduce, scale

def loses_a_tenth_of_the_last(io, p):
    """All means are right but that of the last tensor."""
    for i in p.tensor_order:
        mean = scale(all_reduce(io.read("gradient", i), "sum"), 1, p.world_size)
        io.write("mean", i, scale(mean, 9, 10) if i == len(p.sizes) - 1 else mean)

LIBRARY = Library(developer="loses_a_tenth_of_the_last")
'''


def of_rank(index: int, gradients: Mapping[str, Tensor] | None = None) -> Any:
    """A rank without a library; a framework's step leaves these gradients."""

    def framework_step(module: Module, _way: Any) -> Any:
        def step(_batches: Any) -> None:
            for name, parameter in module.leaves().items():
                parameter.grad = None if gradients is None else gradients.get(name)

        return step

    def nothing(*_: Any) -> None:
        return None

    return SimpleNamespace(
        index=index,
        ranks=RANKS,
        device="cpu",
        is_lazy=False,
        status=SimpleNamespace(enter=nothing, work_on=nothing),
        library_version="torch",
        library_calls=nothing,
        own_part=lambda x: x,
        framework_step=framework_step,
        **dict.fromkeys(("meet", "force", "end_call"), nothing),
    )


def right(model: Model) -> list[Gradients]:
    """Of each rank, in the step that is inspected: its part of the unsharded model's."""
    cls, replicas = pieces_of(model), list(model.replicas(RANKS))
    fed = [
        cls.feed(model, seed=0, step=0, rank=replicas.index(replica), ranks=RANKS)
        for replica in sorted(set(replicas))
    ]
    settled = Unsharded(model, of_rank(0), seed=0).settled(fed)
    whole = unsharded_gradients(model, settled, seed=0)
    parts = [
        {name: cls.shard(model, name, one, rank, RANKS) for name, one in whole.items()}
        for rank in range(RANKS)
    ]
    return [{name: one for name, one in mine.items() if one is not None} for mine in parts]


def why_refused(model: Model, arm: str, gradients: list[Gradients]) -> set[Reason]:
    """What the training gate says of an arm whose ranks have these gradients."""
    plan = TrainingPlan(
        launch=0, ranks=RANKS, model=model, settings=SETTINGS, arms=(Arm(name=arm, microbatches=1),)
    )

    def inspected(rank: int) -> Inspection:
        trainer = _Trainer(of_rank(rank, gradients[rank]), plan)
        trainer.inspect()
        return trainer.inspections[0]

    records = [[record(0, [0, 1], [1, 2], [2.0, 2.0], inspection=inspected(rank))] for rank in range(RANKS)]
    rows = rows_of(plan, records, 0.0, "here", oversubscribed=False, told=NodeReport())
    return failures(rows)[arm]


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize(("model", "arm"), [(WHOLE, "ddp"), (EXPERTS, "experts")], ids=["whole", "experts"])
def test_every_parameters_gradient_is_compared_on_every_rank(model: Model, arm: str, rank: int) -> None:
    gradients = right(model)
    assert not why_refused(model, arm, gradients)
    for name, one in gradients[rank].items():
        for what, wrong in {"a tenth less": 0.9 * one, "infinite": one / 0.0, "none": None}.items():
            spoiled = [dict(mine) for mine in gradients]
            spoiled[rank] |= {name: wrong}
            assert why_refused(model, arm, spoiled) == WRONG, (name, what)


def test_one_expert_of_one_rank_is_enough() -> None:
    gradients = right(EXPERTS)
    spread = [name for name, one in gradients[0].items() if one.ndim == 3]
    assert len(spread) == 2
    for rank in range(RANKS):
        for name in spread:
            for expert in range(len(gradients[rank][name])):
                spoiled = [{name: one.clone() for name, one in mine.items()} for mine in gradients]
                spoiled[rank][name][expert] *= 0.9
                assert why_refused(EXPERTS, "experts", spoiled) == WRONG, (rank, name, expert)


@pytest.mark.ranks
def test_the_last_mean_alone_is_wrong_and_only_the_gradients_tell(tmp_path: Path, unrepeated: None) -> None:
    """AdamW divides a gradient by its size, so a step with a tenth less has the same losses."""
    arms = Arms(WHOLE, CHEATS)
    arms.add("developer", microbatches=1, gradients="one_by_one")
    arms.add("wrong", microbatches=1, gradients="loses_a_tenth_of_the_last")
    rows = train(arms.training(launches=1), tmp_path, "train-test", "", silent)
    [error] = {row["gradient_rel_error"] for row in rows if row["arm"] == "wrong"}
    assert error == pytest.approx(0.1, rel=1e-3)
    assert failures(rows) == {"developer": set(), "wrong": WRONG}
