"""A Case of a deployed module as data: its ranks, ports and groups, and its proven ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd.forward_ad import unpack_dual
from torch.nn.parameter import is_lazy

from overlayccl_core.emit.runtime.events import Port, Section


# NamedTuples: a dataclass with annotations as text needs its module in sys.modules while it is made.
class Spec(NamedTuple):
    """Tensor of a port on one rank. equal: the same on all ranks. valid: number of meaningful leading elements on
    each rank (None: all). within: smallest and largest value, None: any. saved: an output for the backward alone.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    equal: bool = False
    valid: tuple[int, ...] | None = None
    within: tuple[int, int] | None = None
    saved: bool = False

    def admits(self, x: Any, device: str) -> bool:
        """Return whether x is a plain tensor of this type on a device of that kind; others look at its shape."""
        return (
            isinstance(x, torch.Tensor)
            and not oddity(x)
            and x.dtype is self.dtype
            and x.device.type == device
        )

    def unread(self, port: Port, x: Any, device: torch.device, waits: bool) -> str:
        """Return why x is no answer to a Read of the port, or nothing. waits: as of `outside`."""
        size = math.prod(self.shape)
        if self.admits(x, device.type) and x.shape == (size,) and x.is_contiguous() and not x.is_neg():
            outside = self.outside(x, waits)
            return f"{port_text(port)} has {outside}" if outside else ""
        lies = "" if not isinstance(x, torch.Tensor) or oddity(x) or x.is_contiguous() else ", strided"
        return f"{port_text(port)} is a flat tensor of {size} {self.dtype} on {device}; got {shown(x)}{lies}"

    def same(self, x: torch.Tensor) -> str:
        """Return a digest of ids that must be equal on all ranks, for the ranks to compare; or nothing."""
        if not self.equal or self.dtype is not torch.int64:
            return ""
        return f", with ids {hash(tuple(x.flatten().tolist())) % 2**32:08x}"

    def outside(self, x: torch.Tensor, waits: bool) -> str:
        """Return the values beyond the declared range, and the mend, or nothing.

        Looks at values on the CPU; elsewhere only if it may wait for the device (waits). Padding may be -inf beside
        the range.
        """
        if self.within is None or not (waits or x.device.type == "cpu"):
            return ""
        low, high = (end.item() for end in x.aminmax())
        if low == -math.inf < high:
            low = x.masked_fill(x == low, high).min().item()
        if high == -math.inf or (self.within[0] <= low and high <= self.within[1]):
            return ""
        what, mend = (
            ("ids", "give such tokens another id, and leave out what is made of them")
            if self.dtype is torch.int64
            else ("values", "keep to what the Case declares, or deploy one without")
        )
        return (
            f"{what} from {low:g} to {high:g}, and {self.within[0]} to {self.within[1]} are allowed: {mend}"
        )


def oddity(x: torch.Tensor) -> str:
    """Return why calls of a library cannot have a tensor; empty for a plain one, with any strides.

    Its elements do not lie in memory of its own, each at its place (sparse, nested, a DTensor, one with freed
    storage), or they would lose its tangent.
    """
    of = type(x)
    if of is not torch.Tensor and (
        of.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or is_lazy(x)
    ):
        return of.__name__
    if x.is_nested:
        return "nested tensor"
    if x.layout is not torch.strided:
        return f"{str(x.layout).removeprefix('torch.').strip('_')} tensor"
    if unpack_dual(x).tangent is not None:
        return "dual tensor (gradients go backward only, its tangent would be lost)"
    return "" if _is_there(x) else "tensor beyond the end of its storage"


def _is_there(x: torch.Tensor) -> bool:
    """Return whether its storage reaches as far as shape and strides do; True on XLA, where the size is unknown."""
    if x.is_xla:
        return True
    reach = x.numel()
    if not x.is_contiguous():
        reach = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return bool((x.storage_offset() + reach) * x.element_size() <= x.untyped_storage().nbytes())


def shown(x: Any) -> str:
    """Describe a given value: (64, 128) torch.float32 on cpu."""
    if not isinstance(x, torch.Tensor):
        return type(x).__name__
    if odd := oddity(x):
        return f"{odd} of {x.dtype} on {x.device} (give a plain dense one of its elements)"
    return f"{tuple(x.shape)} {x.dtype} on {x.device}"


class Way(NamedTuple):
    """A proven way of running a Case.

    sections: makes the sections of each direction. ungrouped: why it does not fall into groups, or nothing.
    tolerance: rms error over rms against the plain calls, by direction. said: facts for a stamp, by direction.
    """

    sections: Callable[..., dict[str, tuple[Section, ...]]]
    ungrouped: str
    tolerance: dict[str, float]
    said: dict[str, dict[str, str]]


class Entry(NamedTuple):
    """A Case: its ranks, its ports by direction, its groups of ports, and its ways.

    gradient: `backward` (backward() gives it), `in_backward` (the Case is the backward of an identity: it runs in
    the backward pass), `none`. groups: (inputs, outputs) of each. permutes: some way has some. arguments: values it
    is proven for and tensors do not show: name -> integers of each rank, to be passed with a call. ways: by name,
    `chosen` and `plain` among them.
    """

    ranks: int
    members: tuple[tuple[int, ...], ...]
    gradient: str
    inputs: dict[str, dict[Port, Spec]]
    outputs: dict[str, dict[Port, Spec]]
    groups: tuple[tuple[tuple[Port, ...], tuple[Port, ...]], ...]
    permutes: bool
    arguments: dict[str, tuple[tuple[int, ...], ...]]
    ways: dict[str, Way]

    def what(self) -> str:
        """Describe ranks, shapes and types, for messages."""
        shapes = dict.fromkeys((spec.shape, str(spec.dtype)) for spec in self.inputs["forward"].values())
        shown = [f"{shape} {dtype}" for shape, dtype in list(shapes)[:4]]
        more = ", ..." if len(shapes) > 4 else ""
        where = f"{self.ranks} ranks" + (f" x {len(self.members)}" if len(self.members) > 1 else "")
        return f"{where}, {len(self.inputs['forward'])} inputs of {', '.join(shown)}{more}"


def ports(*specs: tuple[Spec, tuple[Port, ...]]) -> dict[Port, Spec]:
    """Return port -> Spec, from (Spec, ports) pairs."""
    return {port: spec for spec, names in specs for port in names}


def port_text(port: Port) -> str:
    """Return partial[0, 3], for messages."""
    return f"{port[0]}[{', '.join(map(str, port[1:]))}]" if len(port) > 1 else str(port[0])


def what_there_is(entries: dict[str, Entry]) -> str:
    """List the Cases of a module, for messages."""
    lines = [f"{case}: {entry.what()}" for case, entry in entries.items()]
    return "It has these Cases, no other shape, type or number of ranks is proven:\n  " + "\n  ".join(lines)
