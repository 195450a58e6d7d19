"""What ranks run in the tests of deployed modules: plays every scenario of a folder, writes what it saw."""

import os
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from overlayccl_core.step.driver import SiteModule, run_step
from overlayccl_core.training import arm
from overlayccl_core.training.models import llama
from overlayccl_core.training.tensor_parallel import TensorParallelStep
from overlayccl_core.training.worker import relative_error
from tests.emit.scenarios_worker import run_scenarios
from tests.emit.tiny_model import WIDTH, data, full_parameters, shard, unsharded_gradients
from tests.training.step_worker import MODEL, tokens

Seen = dict[str, Any]


def gradients(rank: Rank, path: Path, leave: str, enter: str, layers: int, microbatches: int) -> Seen:
    """The tiny model through groups of both sites: worst relative error of a gradient, and both stamps."""
    module = load_module(path, path.stem)
    out, into = module.connect(leave), module.connect(enter)
    blocks = [
        {k: shard(k, x, rank.index, rank.ranks).clone().requires_grad_() for k, x in full.items()}
        for full in full_parameters(layers)
    ]
    inputs, targets = data(microbatches)
    xs = list(inputs)
    for layer, p in enumerate(blocks):
        hs = into.group(layer)([functional.rms_norm(x, (WIDTH,), p["norm"]) for x in xs])
        parts = [functional.linear(functional.silu(functional.linear(h, p["up"])), p["down"]) for h in hs]
        xs = [total.add_(x) for x, total in zip(xs, out.group(layer)(parts), strict=True)]  # in place is fine
    losses = [(x - y).square().mean() / microbatches for x, y in zip(xs, targets, strict=True)]
    torch.stack(losses).sum().backward()
    wanted = unsharded_gradients(layers, microbatches)
    errors = []
    for layer, p in enumerate(blocks):
        for name, x in p.items():
            want = shard(name, wanted[layer][name], rank.index, rank.ranks)
            errors.append(((x.grad - want).norm() / want.norm()).item())
    return {"error": max(errors), "out": out.stamp(), "into": into.stamp()}


def parallel(rank: Rank, path: Path, leave: str, enter: str, layers: int, microbatches: int) -> Seen:
    """Blocks of two parts behind one norm through groups of both sites: worst relative error of a gradient."""
    module = load_module(path, path.stem)
    out, into = module.connect(leave), module.connect(enter)
    full = full_parameters(2 * layers)
    mine = [{k: shard(k, x, rank.index, rank.ranks).clone() for k, x in p.items()} for p in full]
    inputs, targets = data(microbatches)

    def part(h: torch.Tensor, p: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional.linear(functional.silu(functional.linear(h, p["up"])), p["down"])

    def whole(
        layer: int, hs: list[torch.Tensor], parameters: list[dict[str, torch.Tensor]]
    ) -> list[torch.Tensor]:
        both = parameters[2 * layer : 2 * layer + 2]
        return [part(h, both[0]) + part(h, both[1]) for h in hs]

    def sharded(
        layer: int, hs: list[torch.Tensor], parameters: list[dict[str, torch.Tensor]]
    ) -> list[torch.Tensor]:
        entered = into.group(layer)(hs)
        parts = [part(h, parameters[2 * layer + i % 2]) for i, h in enumerate(entered)]
        return list(out.group(layer)(parts))

    def trained(parameters: list[dict[str, torch.Tensor]], block: Callable[..., list[torch.Tensor]]) -> None:
        for p in parameters:
            for x in p.values():
                x.requires_grad_()
        xs = list(inputs)
        for layer in range(layers):
            hs = [functional.rms_norm(x, (WIDTH,), parameters[2 * layer]["norm"]) for x in xs]
            xs = [x + y for x, y in zip(xs, block(layer, hs, parameters), strict=True)]
        losses = [(x - y).square().mean() / microbatches for x, y in zip(xs, targets, strict=True)]
        torch.stack(losses).sum().backward()

    trained(full, whole)
    trained(mine, sharded)
    errors = []
    for p, of in zip(mine, full, strict=True):
        for name, x in p.items():
            if x.grad is not None:
                want = shard(name, of[name].grad, rank.index, rank.ranks)
                errors.append(((x.grad - want).norm() / want.norm()).item())
    return {"error": max(errors), "out": out.stamp(), "into": into.stamp()}


def driven(rank: Rank, path: Path, leave: str, enter: str, layers: int, microbatches: int) -> Seen:
    """A step of the project's own training through forward() of both sites and the step driver."""
    module = load_module(path, path.stem)
    model = MODEL.model_copy(update={"layers": layers // 2})  # a block is two sublayers
    [data] = tokens(microbatches, 1)
    step = TensorParallelStep(
        llama.Pieces(model, llama.Pieces.full_parameters(model, seed=1), rank.index, rank.ranks), data
    )
    sites = []
    for site, case in (("entry", enter), ("exit", leave)):
        connected = module.connect(case)
        shapes = {port: spec.shape for port, spec in connected.entry.outputs["forward"].items()}
        sites.append(SiteModule(site=site, generator=connected.forward(), read=module.Read, shapes=shapes))
    run_step(sites, list(step.segments()))
    wanted = arm.unsharded_gradients(model, data, seed=1)
    errors = [
        relative_error(x.grad, llama.Pieces.shard(model, name, wanted[name], rank.index, rank.ranks))
        for name, x in step.pieces.parameters.items()
    ]
    return {"error": max(errors)}


def exchanged(rank: Rank, path: Path, case: str, chunk: int, width: int) -> Seen:
    """uniform_a2a: what came, and the gradient of a weighted sum of it, against their definitions."""
    connected = load_module(path, path.stem).connect(case)
    n = rank.ranks

    def block(source: int, to: int) -> torch.Tensor:
        return torch.arange(chunk * width).view(chunk, width).float() + 100 * source + 1000 * to

    mine = torch.cat([block(rank.index, to) for to in range(n)])
    x = mine.t().contiguous().t().requires_grad_()  # as a script may hold it: not contiguous
    (y,) = connected.group(0)([x])
    came = torch.cat([block(source, rank.index) for source in range(n)])
    (y * came).sum().backward()
    return {
        "values": torch.equal(y, came),
        "gradients": torch.equal(x.grad, mine),
        "stamp": connected.stamp(),
    }


def averaged(rank: Rank, path: Path, case: str, sizes: list[int]) -> Seen:
    """grad_ar: means of gradients that have their parameters' shapes; inputs stay as they were."""
    connected = load_module(path, path.stem).connect(case)
    gradients = [torch.full((n, 1), float(rank.index * (i + 1))) for i, n in enumerate(sizes)]
    kept = [x.clone() for x in gradients]
    means = connected.group(0)(gradients)
    average = (rank.ranks - 1) / 2
    return {
        "values": all(bool((x == average * (i + 1)).all()) for i, x in enumerate(means)),
        "shapes": [list(x.shape) for x in means] == [[n, 1] for n in sizes],
        "kept": all(torch.equal(x, y) for x, y in zip(gradients, kept, strict=True)),
        "refused": said(lambda: connected.group(0)([x.requires_grad_() for x in gradients])),
        "no backward": said(connected.backward),
        "changed in place": float(means[0].add_(1)[0, 0]),
    }


def met(rank: Rank, path: Path, case: str, count: int, tag: int, library: str) -> Seen:
    """A call while a receive of the script's own is in flight: rank 0 posts it before, the last sends after."""
    module = load_module(path, path.stem)
    module.found = lambda device: {"library": library, "torch": metadata.version("torch")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connected = module.connect(case)
    mine = torch.zeros(count)
    last = rank.ranks - 1  # who sends rank 0 the ring's first part
    pending = dist.irecv(mine, src=last, tag=tag) if rank.index == 0 else None
    x = torch.arange(rank.ranks).repeat_interleave(count) + 10.0 * rank.index
    (y,) = connected.group(0)([x.view(connected.entry.inputs["forward"]["send",].shape)])
    if rank.index == last:
        dist.send(torch.full((count,), 777.0), dst=0, tag=tag)
    if pending is not None:
        pending.wait()
    wanted = (10.0 * torch.arange(rank.ranks) + rank.index).repeat_interleave(count)
    return {
        "values": torch.equal(y.view(-1), wanted),
        "own": rank.index != 0 or bool((mine == 777).all()),
        "groups": sum("permutes" in of_world for of_world in module._made.values()),
        "calls": connected.stamp()["calls"],
    }


def changed(rank: Rank, path: Path, leave: str, enter: str) -> Seen:
    """Outputs and gradients that the script changes in place."""
    module = load_module(path, path.stem)
    out, into = module.connect(leave).group(0), module.connect(enter).group(0)
    shape = module.connect(leave).entry.inputs["forward"]["partial", 0, 0].shape

    def leaves() -> list[torch.Tensor]:
        return [torch.full(shape, float(i + 1), requires_grad=True) for i in range(len(out.inputs))]

    xs = leaves()
    ys = out(xs)
    kept = (ys[1] * ys[1]).sum()
    ys[0].add_(1)
    (kept + (ys[0] * ys[0]).sum()).backward()
    shared = leaves()
    a, b = out(shared)[:2]
    (a + b).square().sum().backward()
    before = shared[0].grad.clone()
    shared[1].grad.zero_()
    entered = leaves()
    (2 * sum(into(entered))).sum().backward()
    entered[0].grad.zero_()
    return {
        "changed": float(ys[0].mean()),
        "inputs": [float(x.mean()) for x in xs[:2]],
        "gradients": [float(x.grad.mean()) for x in xs[:2]],
        "apart": torch.equal(shared[0].grad, before),
        "entered": float(entered[1].grad.mean()),
        "identity": said(lambda: into(leaves())[0].add_(1)),
    }


def strided(rank: Rank, path: Path, case: str, size: int) -> Seen:
    """A gradient that is every other element of a longer one."""
    connected = load_module(path, path.stem).connect(case)
    longer = torch.arange(2.0 * size) + rank.index
    (mean,) = connected.group(0)([longer[::2]])
    return {"values": torch.equal(mean, torch.arange(2.0 * size)[::2] + (rank.ranks - 1) / 2)}


def said(call: Callable[[], object]) -> str:
    """The error of a call."""
    try:
        call()
    except (ValueError, RuntimeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refusals(rank: Rank, path: Path, case: str, foreign: str, small: str) -> Seen:
    """What a module says to what it cannot do."""
    module = load_module(path, path.stem)
    connected = module.connect(case)
    shape = connected.entry.inputs["forward"]["partial", 0, 0].shape
    group, x = connected.group(0), torch.zeros(shape)
    messages = {
        "case": said(lambda: module.connect(foreign)),
        "world": said(lambda: module.connect(small)),
        "members": said(lambda: module.connect(case, members=[(0, 1)])),
        "number": said(lambda: group([x])),
        "shape": said(lambda: group([x, x.view(-1)])),
        "dtype": said(lambda: group([x, x.double()])),
        "group": said(lambda: connected.group(2)),
        "text": said(lambda: connected.group("0")),
        "flat": said(lambda: module.connect(case, members=(0, 1, 2, 3))),
        "plain": said(lambda: with_set("PLAIN", "yes", lambda: module.connect(case))),
    }
    mixed = "1" if rank.index == 1 else "0"
    for name in ("PLAIN", "CHECK"):
        messages[f"mixed {name}"] = said(
            lambda name=name: with_set(name, mixed, lambda: module.connect(case))
        )
    return messages


def with_set(name: str, value: str, call: Callable[[], Any]) -> Any:
    """A call in an environment with an OVERLAYCCL_<name>."""
    os.environ[f"OVERLAYCCL_{name}"] = value
    try:
        return call()
    finally:
        del os.environ[f"OVERLAYCCL_{name}"]


def checked(rank: Rank, path: Path, case: str) -> Seen:
    """OVERLAYCCL_CHECK=1, and one rank that does what the others do not; then all do the same."""
    connected = with_set("CHECK", "1", lambda: load_module(path, path.stem).connect(case))
    shape = connected.entry.inputs["forward"]["partial", 0, 0].shape
    first, second = connected.groups[:2]
    xs = [torch.full(shape, i + 1.0, requires_grad=True) for i in range(len(first.inputs))]
    odd = rank.index == 2

    def answered() -> None:
        steps = connected.forward()
        next(steps)
        steps.send(torch.zeros(3 if odd else xs[0].numel()))

    def other_order() -> None:
        ys, zs = first(xs), second(xs)
        torch.stack(zs if odd else ys).sum().backward()

    return {
        "nothing": said(lambda: first() if odd else first(xs)),
        "no list": said(lambda: first(None if odd else xs)),
        "argument": said(lambda: first(xs, **{"counts": [1]} if odd else {})),
        "events' argument": said(lambda: connected.forward(**{"counts": [1]} if odd else {}) and None),
        "shape": said(lambda: first([torch.zeros(3), *xs[1:]] if odd else xs)),
        "none": said(lambda: first([None, *xs[1:]] if odd else xs)),
        "number": said(lambda: first(xs[1:] if odd else xs)),
        "group": said(lambda: (second if odd else first)(xs)),
        "flow": said(lambda: first([x.detach() for x in xs] if odd else xs)),
        "backward": said(other_order),
        "events": said(answered),
        "values": [float(y.mean()) for y in first(xs)],
    }


def plain(rank: Rank, path: Path, **arguments: Any) -> Seen:
    """`gradients` with the plain calls."""
    return with_set("PLAIN", "1", lambda: gradients(rank, path, **arguments))  # type: ignore[no-any-return]


def versions(rank: Rank, path: Path, case: str) -> Seen:
    """A module proven with another version: refused, or warned of once."""
    module = load_module(path, path.stem)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        strict = said(lambda: module.connect(case, strict=True))
        connected = [module.connect(case) for _ in range(2)]
    return {
        "strict": strict,
        "warnings": [str(w.message) for w in caught],
        "where": [Path(w.filename).name for w in caught],
        "differs": connected[0].stamp()["differs"],
    }


def tested(rank: Rank, path: Path) -> Seen:
    """selftest() of a module, and of a Case that is in use."""
    module = load_module(path, path.stem)
    connected = module.connect(module.cases()[0])
    lines: list[Any] = []
    error = said(lambda: lines.extend(module.selftest()))
    own = said(connected.selftest)
    return {"error": error, "own": own, "lines": lines, "stamp": module.stamp()}


def ungrouped(rank: Rank, path: Path, case: str) -> Seen:
    """A module whose Program does not fall into groups."""
    connected = load_module(path, path.stem).connect(case)
    calls = with_set("PLAIN", "1", lambda: sys.modules[path.stem].connect(case))
    x = torch.ones(connected.entry.inputs["forward"]["partial", 0, 0].shape)
    return {
        "error": said(lambda: connected.group(0)),
        "checked": len(connected.selftest()),
        "plain": float(calls.group(0)([x, x])[0].mean()),
    }


SCENARIOS = {
    f.__name__: f
    for f in (
        gradients, parallel, driven, exchanged, averaged, met, changed, strided, refusals, checked, plain, versions,
        tested, ungrouped,
    )
}  # fmt: skip


def main(folder: Path) -> None:
    run_scenarios(folder, lambda rank, path, name, **arguments: SCENARIOS[name](rank, path, **arguments))
