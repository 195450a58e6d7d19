"""The torchrun target of the step tests: runs the arms of a folder, writes each rank's results."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from overlayccl_core.backends.status import Phase
from overlayccl_core.backends.torchdist.bench_driver import Emitted
from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.segments import StepSegment, Tensor
from tests.training.tiny_model import TinyStep, data, shard, unsharded_gradients


def gradient_segments(
    step: TinyStep, order: list[tuple[int, str]], averaged: dict[int, Tensor]
) -> list[StepSegment]:
    """Site `gradients`: gradient i is there after the backward of its layer in all microbatches."""
    found = [
        StepSegment(
            name=("gradient", i),
            gives=(("gradients", ("gradient", i)),),
            after=tuple(("backward", m, layer) for m in range(step.microbatches)),
            work=lambda _v, i=i, layer=layer, name=name: {
                ("gradients", ("gradient", i)): step.blocks[layer].parameters[name].grad
            },
        )
        for i, (layer, name) in enumerate(order)
    ]
    needs = tuple(("gradients", ("mean", i)) for i in range(len(order)))

    def optimizer(values: Any) -> dict[Any, Tensor]:
        averaged.update({i: values[value] for i, value in enumerate(needs)})
        return {}

    return [*found, StepSegment(name=("optimizer",), needs=needs, work=optimizer)]


def run_arm(rank: Rank, index: int, arm: dict[str, Any]) -> dict[str, Any]:
    """One step: the largest relative error of a gradient, and the most blocks alive."""
    layers, microbatches, replicas = arm["layers"], arm["microbatches"], arm["replicas"]
    ranks = rank.ranks // replicas
    replica, place = divmod(rank.index, ranks)
    modules = {}
    for number, site in enumerate(arm["sites"]):
        path = rank.folder / site["module"]
        members = tuple(tuple(m) for m in site["members"])
        modules[site["site"]] = Emitted.load(path, f"arm_{index}_{number}", "forward", members, rank.device)
    xs, ys = data(microbatches, replicas)
    step = TinyStep(layers, xs[replica], ys[replica], place, ranks)
    segments = list(step.segments())
    averaged: dict[int, Tensor] = {}
    order = [(layer, name) for layer in range(layers) for name in ("norm", "up", "down")]
    if "gradients" in modules:
        segments += gradient_segments(step, order, averaged)
    run_step(
        [
            SiteModule(
                site=site["site"],
                generator=modules[site["site"]].function(),
                read=modules[site["site"]].read,
                shapes={tuple(port): tuple(shape) for port, shape in site["shapes"]},
            )
            for site in arm["sites"]
        ],
        segments,
    )
    errors = []
    for i, (layer, name) in enumerate(order):
        got = step.blocks[layer].parameters[name].grad
        got = averaged[i].view(got.shape) if averaged else got
        want = shard(name, unsharded_gradients(layers, microbatches, replicas)[layer][name], place, ranks)
        errors.append(((got - want).norm() / want.norm()).item())
    return {"error": max(errors), "peak_alive": step.peak_alive, "left": len(step.sharded)}


def main(folder: Path) -> None:
    arms = json.loads((folder / "arms.json").read_text())

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        found = []
        for index, arm in enumerate(arms):
            rank.status.work_on(index)
            found.append(run_arm(rank, index, arm))
        (folder / f"found-{rank.index}.json").write_text(json.dumps(found))

    run_rank(folder, "gloo", work)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
