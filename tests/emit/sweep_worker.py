"""What ranks run in the sweep over every Problem's module: layouts, kinds of tensors, process groups, arguments.

All that torch warns of as about to go is an error here.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from tests.emit.deployed_worker import said, with_set
from tests.emit.scenarios_worker import run_scenarios

Seen = dict[str, Any]
Tensor = torch.Tensor


def _ends_swapped(x: Tensor) -> Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def _every_other(x: Tensor) -> Tensor:
    return torch.stack([x, x], -1).flatten(-2)[..., ::2]


def _expanded(x: Tensor) -> Tensor:
    return x[:1].expand(x.shape)


def _with_offset(x: Tensor) -> Tensor:
    return torch.cat([x.new_zeros(3), x.reshape(-1)])[3:].view(x.shape)


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else _ends_swapped(x)


LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "with an offset": _with_offset,
    "channels_last": _channels_last,
    "transposed": _ends_swapped,
    "every other element": _every_other,
    "expanded": _expanded,
    "negated": lambda x: torch._neg_view(-x) if x.is_floating_point() else x,
}


def own(connected: Any) -> dict[str, Any]:
    """This rank's proven arguments."""
    return {name: rows[connected.rank] for name, rows in connected.entry.arguments.items()}


def spec_of(entry: Any, port: tuple[Any, ...]) -> Any:
    """Of a port that a group takes or gives."""
    return {**entry.outputs["forward"], **entry.inputs["forward"]}[port]


def laid_out(
    connected: Any, group: Any, shapes: Mapping[str, list[int]], lay: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """Inputs of a group, in shapes that a script may have in place of a port of one axis."""
    made = []
    for number, port in enumerate(group.inputs):
        spec = spec_of(connected.entry, port)
        random = torch.Generator().manual_seed(100 * number + dist.get_rank() * (not spec.equal))
        shape = shapes.get(port[0], spec.shape)
        if spec.within and spec.dtype is torch.int64:
            x = torch.randint(spec.within[0], spec.within[1] + 1, shape, generator=random)
        else:
            x = torch.randn(shape, generator=random).to(spec.dtype)
        made.append(lay(x).detach())
    return made


def layouts(rank: Rank, path: Path, case: str, shapes: Mapping[str, list[int]]) -> Seen:
    """layout -> what is wrong with it, chosen and plain, forward and backward."""
    module = load_module(path, path.stem)
    wrong: Seen = {}
    for way in ("0", "1"):
        connected = with_set("PLAIN", way, lambda: module.connect(case))
        for name, lay in LAYOUTS.items():
            for group in connected.groups:
                found = _compared(connected, group, shapes, lay)
                wrong.setdefault(name, []).extend(f"plain {way}, {text}" for text in found)
    return wrong


def _compared(
    connected: Any, group: Any, shapes: Mapping[str, list[int]], lay: Callable[[Tensor], Tensor]
) -> Iterator[str]:
    """A call with tensors of some layout against the same with contiguous copies of them."""
    given = laid_out(connected, group, shapes, lay)
    rows = [x.resolve_neg().contiguous() for x in given]
    flow = connected.entry.gradient != "none"
    results = []
    for xs in (given, rows):
        kept = [x.clone() for x in xs]
        if flow:
            for x in xs:
                x.requires_grad_(x.is_floating_point())
        ys = group(xs, **own(connected))
        back = ()
        if flow:
            taken = [x for x in xs if x.requires_grad]
            cotangents = [
                lay(torch.randn(y.shape, generator=torch.Generator().manual_seed(i)).to(y.dtype))
                for i, y in enumerate(ys)
            ]
            back = torch.autograd.grad(
                ys, taken, cotangents if xs is given else [c.contiguous() for c in cotangents]
            )
        if not all(torch.equal(a.detach(), b) for a, b in zip(xs, kept, strict=True)):
            yield "an input was changed"
        results.append((ys, back))
    (ys, back), (ys_in_rows, back_in_rows) = results
    yield from _differ("outputs", ys, ys_in_rows)
    yield from _differ("gradients", back, back_in_rows)
    entry = connected.entry
    is_in_backward = entry.gradient == "in_backward"
    for port, y in zip(group.outputs, ys, strict=True):
        there = next(
            (
                (other, x) for other, x in zip(group.inputs, given, strict=True)
                if begins(*((other, port) if is_in_backward else (port, other)))
                and spec_of(entry, other).shape == spec_of(entry, port).shape
            ),
            None,
        )  # fmt: skip
        wanted = torch.empty_like(there[1]).stride() if there else y.contiguous().stride()
        if there and is_in_backward:
            if y.data_ptr() != there[1].data_ptr():
                yield f"{port} is not the input"
        elif y.stride() != wanted:
            yield f"{port} has strides {y.stride()} in place of {wanted}"
    if is_in_backward or not group._passes["backward" if flow else "forward"].is_identity:
        for x, d in zip([x for x in given if x.requires_grad], back, strict=True):
            if d.stride() != torch.empty_like(x).stride():
                yield f"a gradient has strides {d.stride()} in place of {torch.empty_like(x).stride()}"


def begins(whole: tuple[Any, ...], part: tuple[Any, ...]) -> bool:
    """The index of a part of a sum begins with that of the sum."""
    return part[1:][: len(whole) - 1] == whole[1:]


def _differ(what: str, got: Any, wanted: Any) -> Iterator[str]:
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if a.shape != b.shape or not torch.equal(a.contiguous(), b.contiguous()):
            yield f"{what} {i} differ"


class Wrapped(Tensor):
    """A tensor whose elements lie in another one."""

    @staticmethod
    def __new__(cls, x: Tensor) -> "Wrapped":
        made = Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.inner = x
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{function} of a Wrapped")


def freed(x: Tensor) -> Tensor:
    """As sharded parameters and offloaded activations are meanwhile."""
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x


def kinds(rank: Rank, path: Path, case: str, shapes: Mapping[str, list[int]]) -> Seen:
    """kind of tensor that rank 1 alone brings -> what this rank was told, in the checked mode."""
    connected = with_set("CHECK", "1", lambda: load_module(path, path.stem).connect(case))
    group = connected.groups[0]
    mesh = init_device_mesh("cpu", (rank.ranks,))
    made: Mapping[str, Callable[[Tensor], Any]] = {
        "none": lambda x: None,
        "type": lambda x: x.double(),
        "shape": lambda x: x.reshape(-1)[:-1],
        "meta": lambda x: x.to("meta"),
        "sparse": lambda x: x.to_sparse(),
        "mkldnn": lambda x: x.float().to_mkldnn(),
        "nested": lambda x: torch.nested.nested_tensor([x]),
        "jagged": lambda x: torch.nested.nested_tensor([x.view(-1)], layout=torch.jagged),
        "distributed": lambda x: DTensor.from_local(x, mesh, [Shard(0)], run_check=False),
        "wrapped": Wrapped,
        "lazy": lambda x: torch.nn.UninitializedParameter(),
        "freed": freed,
    }
    told = {}
    for name, make in made.items():
        xs = laid_out(connected, group, shapes, LAYOUTS["contiguous"])
        if rank.index == 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                xs[0] = make(xs[0])
        told[name] = said(lambda xs=xs: group(xs, **own(connected)))
    return told


def groups(rank: Rank, path: Path, case: str) -> Seen:
    """Timeouts, in s, of the world and of the groups that a module makes; what is said of one in torch's order."""
    module, backwards = load_module(path, path.stem), [tuple(reversed(range(rank.ranks)))]
    module.connect(case, members=backwards)

    def timeout(group: Any) -> float:
        return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())

    [(_, of_world)] = module._made.items()
    permutes = module.permute_group("nccl")
    return {
        "world": timeout(dist.group.WORLD),
        "made": [timeout(g.get()) for g in (*of_world.values(), permutes)],
        "sorted": said(
            lambda: module.connect(
                case, members=backwards, new_group=lambda ranks: dist.new_group(list(ranks))
            )
        ),
    }


@contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


def elsewhere(rank: Rank, path: Path, case: str) -> Seen:
    """A script whose default device is another one: the selftest and a call."""
    entry = load_module(path, path.stem).ENTRIES[case]
    specs = [spec_of(entry, port) for port in entry.groups[0][entry.gradient == "in_backward"]]
    xs = [torch.ones(spec.shape, dtype=spec.dtype) for spec in specs]
    with default_device("meta"):
        connected = sys.modules[path.stem].connect(case)
        return {
            "selftest": said(connected.selftest),
            "call": said(lambda: connected.groups[0](xs, **own(connected))),
        }


def counted(rank: Rank, path: Path, case: str) -> Seen:
    """What calls of a Case with arguments say to what they are given, chosen, plain and checked."""
    module = load_module(path, path.stem)
    ways = {"chosen": ("PLAIN", "0"), "plain": ("PLAIN", "1"), "checked": ("CHECK", "1")}
    return {
        way: _counts_tried(rank.index == 1, with_set(*value, lambda: module.connect(case)))
        for way, value in ways.items()
    }


def _counts_tried(is_odd: bool, connected: Any) -> Seen:
    """Where one rank is wrong, the other makes the call beside it only if they ask each other."""
    group, mine = connected.group(0), list(own(connected)["counts"])
    xs = laid_out(connected, group, {}, lambda x: x)
    other = [*mine[1:], mine[0]] if is_odd else mine

    def alone(call: Callable[[], Any]) -> str:
        return said(call) if is_odd or connected.checks else ""

    return {
        "right": said(lambda: group(xs, counts=mine)),
        "as a tensor": said(lambda: group(xs, counts=torch.tensor(mine))),
        "other": alone(lambda: group(xs, counts=other)),
        "missing": said(lambda: group(xs)),
        "missing on one": alone(lambda: group(xs) if is_odd else group(xs, counts=mine)),
        "too few": alone(lambda: group(xs, counts=mine[1:] if is_odd else mine)),
        "no integers": alone(lambda: group(xs, counts=[0.5] * len(mine) if is_odd else mine)),
        "no list": alone(lambda: group(xs, counts=dict.fromkeys(mine) if is_odd else mine)),
        "misspelt": said(lambda: group(xs, count=mine)),
        "misspelt on one": alone(lambda: group(xs, **{"count" if is_odd else "counts": mine})),
        "too large on one": alone(lambda: group(xs, counts=[2**70, *mine[1:]] if is_odd else mine)),
        "none on one": alone(lambda: group(xs, counts=None if is_odd else mine)),
        "nothing on one": alone(lambda: group(counts=mine) if is_odd else group(xs, counts=mine)),
        "no list on one": alone(lambda: group(None if is_odd else xs, counts=mine)),
        "beside on one": alone(lambda: group(xs, counts=mine, **{"rows": 1} if is_odd else {})),
        "events misspelt on one": alone(lambda: connected.forward(**{"count" if is_odd else "counts": mine})),
        "events": said(lambda: next(connected.forward(counts=mine)) and None),
        "events without": said(connected.forward),
        "events of others": alone(lambda: connected.backward(counts=other)),
    }


def padded(rank: Rank, path: Path, case: str) -> Seen:
    """Cross-entropies with a declared range: padding of -inf is exact, what is beyond is refused."""
    connected = load_module(path, path.stem).connect(case)
    group = connected.group(0)
    spec = connected.entry.inputs["forward"]["logits",]
    tokens, words = spec.shape
    limit = float(spec.within[1])
    random = torch.Generator().manual_seed(rank.index)
    logits = 4 * torch.randn(tokens, words, generator=random)
    if rank.index == rank.ranks - 1:
        logits[:, 1:] = -torch.inf  # this rank has one word, then padding
        logits[0] = -torch.inf  # and here none that counts
    every = [torch.empty_like(logits) for _ in range(rank.ranks)]
    dist.all_gather(every, logits)
    whole = torch.cat(every, 1).double().requires_grad_()
    targets = torch.arange(tokens) % words
    losses, mean = group([logits.requires_grad_(), targets])
    wanted = torch.nn.functional.cross_entropy(whole, targets, reduction="none")
    mean.sum().backward()
    wanted.mean().backward()
    gradient = whole.grad[:, rank.index * words :][:, :words]
    beyond = logits.detach().clone()
    beyond[0, 0] = 1.01 * limit
    undefined = logits.detach().clone()
    undefined[0, 0] = torch.nan
    return {
        "losses": float((losses - wanted).abs().max()),
        "gradients": float((logits.grad - gradient).abs().max()),
        "zeros": bool((logits.grad[torch.isinf(logits)] == 0).all()),
        "beyond": said(lambda: group([beyond, targets])),
        "nan": said(lambda: group([undefined, targets])),
        "events": [said(lambda x=x: answered(connected, x)) for x in (
            {"logits": beyond, "targets": targets},
            {"logits": logits.detach(), "targets": targets + words * rank.ranks},
            {"logits": logits.detach(), "targets": targets},
        )],
    }  # fmt: skip


def answered(connected: Any, given: Mapping[str, Tensor]) -> None:
    """A Case's forward, driven by its events."""
    events = connected.forward()
    event = next(events)
    while event is not None:
        x = given[event.port[0]].view(-1) if not hasattr(event, "value") else None
        try:
            event = events.send(x)
        except StopIteration:
            event = None


SCENARIOS = {f.__name__: f for f in (layouts, kinds, groups, elsewhere, counted, padded)}


def main(folder: Path) -> None:
    warnings.simplefilter("error", FutureWarning)
    run_scenarios(folder, lambda rank, path, name, **arguments: SCENARIOS[name](rank, path, **arguments))
