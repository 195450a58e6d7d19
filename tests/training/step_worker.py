"""What ranks run in the step tests: runs the arms of a folder, writes each rank's results."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.launching.status import Phase
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.inspection import inspect
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Name, StepSegment, Tensor
from overlayccl_core.training.tensor_parallel import TensorParallelStep
from overlayccl_core.training.worker import relative_error
from overlayccl_core.workloads.llama import Model, Parallelism

MODEL = Model(
    name="tiny", workload="llama", parallelism=Parallelism.TENSOR, width=8, hidden=16, layers=1, heads=4,
    sequence=4, batch=1, vocabulary=256, microbatches=(1,), loss_microbatches=1,
).model_copy(update={"vocabulary": 16})  # fmt: skip  # its tokens are no bytes; a small head hides no sums


def tokens(microbatches: int, replicas: int) -> list[list[Tensor]]:
    """[replica][microbatch]: int64[1, sequence + 1]."""
    random = torch.Generator().manual_seed(2)
    shape = (1, MODEL.sequence + 1)
    return [
        [torch.randint(MODEL.vocabulary, shape, generator=random) for _ in range(microbatches)]
        for _ in range(replicas)
    ]


def gradient_segments(pieces: Pieces, step: TensorParallelStep) -> Iterator[StepSegment]:
    """Site `gradients`: gradient i is there after all microbatches' backward of what uses it."""
    held_by = {name: k for k in range(pieces.sublayers) for name in pieces.names_of(k)}
    names = list(pieces.parameters)

    def after(name: str, m: int) -> Name:
        return ("loss", m) if name in ("norm", "head") else ("backward", m, held_by.get(name, 0))

    for i, name in enumerate(names):
        yield StepSegment(
            name=("gradient", i),
            gives=(("gradients", ("gradient", i)),),
            after=tuple(after(name, m) for m in range(len(step.batches))),
            work=lambda _v, i=i, name=name: {
                ("gradients", ("gradient", i)): pieces.parameters[name].grad.clone()
            },
        )
    needs = tuple(("gradients", ("mean", i)) for i in range(len(names)))

    def optimizer(values: Any) -> dict[Any, Tensor]:
        for value, parameter in zip(needs, pieces.parameters.values(), strict=True):
            parameter.grad = values[value].view_as(parameter)
        return {}

    yield StepSegment(name=("optimizer",), needs=needs, work=optimizer)


def run_arm(rank: Rank, index: int, arm: dict[str, Any]) -> dict[str, Any]:
    """One step: the largest relative error of a gradient, and the most bytes held."""
    ranks = rank.ranks // arm["replicas"]
    replica, place = divmod(rank.index, ranks)
    modules = {}
    for number, site in enumerate(arm["sites"]):
        path = rank.folder / site["module"]
        members = tuple(tuple(m) for m in site["members"])
        modules[site["site"]] = rank.load(path, f"arm_{index}_{number}", members)
    data = tokens(arm["microbatches"], arm["replicas"])
    pieces = Pieces(MODEL, Pieces.full_parameters(MODEL, seed=1), place, ranks)

    def fresh() -> list[SiteModule]:
        return [
            SiteModule(
                site=site["site"],
                generator=modules[site["site"]].forward(),
                read=modules[site["site"]].Read,
                shapes={tuple(port): tuple(shape) for port, shape in site["shapes"]},
            )
            for site in arm["sites"]
        ]

    def step() -> None:
        for parameter in pieces.parameters.values():
            parameter.grad = None
        made = TensorParallelStep(pieces, data[replica])
        segments = list(made.segments())
        if "gradients" in modules:
            segments += gradient_segments(pieces, made)
        run_step(fresh(), segments)

    counts = inspect(step, rank.library_calls)
    expected = unsharded_gradients(MODEL, [one for each in data for one in each], seed=1)
    errors = [
        relative_error(parameter.grad, Pieces.shard(MODEL, name, expected[name], place, ranks))
        for name, parameter in pieces.parameters.items()
    ]
    return {"error": max(errors), "peak_bytes": counts.peak_memory_bytes}


def main(folder: Path) -> None:
    arms = json.loads((folder / "arms.json").read_text())

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        results = []
        for index, arm in enumerate(arms):
            rank.status.work_on(index)
            results.append(run_arm(rank, index, arm))
        (folder / f"seen-{rank.index}.json").write_text(json.dumps(results))

    run_rank(folder, "gloo", work)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
