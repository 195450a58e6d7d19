"""Groups of ports under autograd: a list of tensors in, a list of tensors out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from overlayccl_core.emit.runtime.agreement import Agreement, Arguments
from overlayccl_core.emit.runtime.entry import Entry, Spec, oddity, port_text, shown, what_there_is
from overlayccl_core.emit.runtime.events import Port, Section, answer, in_order
from overlayccl_core.emit.runtime.given import ENTRIES


class Group:
    """Inputs that exist together and the outputs made of them: a list of tensors in, a list of tensors out.

    `inputs` and `outputs` are the ports in the order of the lists. All ranks call it, in the same order, with what
    the Case's `arguments` name. An output with an input of its index and shape lies in memory as that does, as
    torch.empty_like has it, and a gradient as its input; others lie row by row. What the forward saves for its
    backward is given to nobody else; `kept` are the ports that the backward reads beside the cotangents: inputs,
    and what is saved.
    """

    def __init__(
        self,
        case: str,
        entry: Entry,
        number: int,
        sections: dict[str, tuple[Section, ...]],
        device: torch.device,
        agreement: Agreement | None,
        arguments: Arguments,
    ) -> None:
        self.case, self.number, self._name = case, number, f"group {number} of {case}"
        self.inputs, written = entry.groups[number]
        saved = tuple(p for p in written if entry.outputs["forward"][p].saved)
        self.outputs = tuple(p for p in written if p not in saved)
        there = entry.inputs.get("backward", {})
        self.kept = tuple(p for p in (*self.inputs, *saved) if p in there)
        there = entry.outputs.get("backward", {})
        self.differentiable = [port in there for port in _cotangents(self.inputs)]
        self._saved = [_Layout(entry.outputs["forward"][p].shape) for p in saved]
        self._gradient, self._device = entry.gradient, device
        self._agreement, self._arguments = agreement, arguments
        self._specs = [entry.inputs["forward"][port] for port in self.inputs]
        self._given = [entry.outputs["forward"][port] for port in self.outputs]
        by_index = {port[1:]: i for i, port in enumerate(self.inputs)}
        same = [by_index.get(port[1:]) for port in self.outputs]
        self._like = [  # an output has shape and layout of the input of its index, if the Case has them alike
            i if i is not None and self._specs[i].shape == spec.shape else None
            for i, spec in zip(same, self._given, strict=True)
        ]
        self._ways = {"forward": _Way(number, sections["forward"], self.inputs, (*self.outputs, *saved))}
        if "backward" in sections:
            reads = (*_cotangents(self.outputs), *self.kept)
            writes = tuple(port for port in _cotangents(self.inputs) if port in there)
            self._ways["backward"] = _Way(number, sections["backward"], reads, writes)

    def __call__(
        self, tensors: torch.Tensor | Iterable[torch.Tensor], **arguments: Any
    ) -> list[torch.Tensor]:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        wrong = self._wrong(tensors)
        if self._agreement is not None:
            self._agreement.reach(self._name + " with gradients" * _flows(tensors), wrong)
        if wrong:
            raise ValueError(wrong)
        self._arguments.check(self._name, arguments)
        if self._gradient == "backward":
            return list(_Through.apply(self, *tensors))
        if self._gradient == "in_backward":
            return list(_InBackward.apply(self, *tensors))
        with torch.no_grad():
            return self.forward(tensors)[0]

    def forward(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """(the outputs, what the backward reads beside their cotangents)."""
        made = self.run("forward", tensors, [*self._layouts(tensors), *self._saved])
        at = dict(zip((*self.inputs, *self._ways["forward"].writes), (*tensors, *made), strict=True))
        return made[: len(self.outputs)], [at[port] for port in self.kept]

    def _layouts(self, tensors: Sequence[torch.Tensor]) -> list[_Layout]:
        """Of the outputs, given the inputs."""
        pairs = zip(self._like, self._given, strict=True)
        return [_Layout(spec.shape) if like is None else _layout(tensors[like]) for like, spec in pairs]

    def run(
        self, direction: str, tensors: Sequence[torch.Tensor], layouts: Sequence[_Layout]
    ) -> list[torch.Tensor]:
        """The calls themselves, where autograd does not look.

        Each result can be changed in place: no memory of an input's or another's, a version of its own.
        """
        way = self._ways[direction]
        results = self._answered(way, tensors)
        return [_own(results[p], p in way.shared, like) for p, like in zip(way.writes, layouts, strict=True)]

    def gradients(
        self, direction: str, cotangents: Sequence[torch.Tensor], layouts: Sequence[_Layout]
    ) -> list[torch.Tensor]:
        """`run` in a backward pass: from cotangents of the outputs to those of the inputs.

        A cotangent that comes back is itself: autograd copies it where two leaves would share it.
        """
        way, doing = self._ways[direction], f"the backward of {self._name}"
        odd = () if way.is_identity else [i for i, x in enumerate(cotangents) if oddity(x)]
        wrong = f"{doing}: the gradient at {odd[0]} is a {shown(cotangents[odd[0]])}" if odd else ""
        if self._agreement is not None:
            self._agreement.reach(doing, wrong)
        if wrong:
            raise ValueError(wrong)
        results = {} if way.is_identity else self._answered(way, cotangents)
        back = []
        for port, like in zip(way.writes, layouts, strict=True):
            if port in way.same:
                x = cotangents[way.same[port]]
                back.append(x if x.shape == like.shape else x.reshape(like.shape).clone())
            else:
                back.append(_own(results[port], port in way.shared, like))
        return back

    def _answered(self, way: _Way, tensors: Sequence[torch.Tensor]) -> dict[Port, torch.Tensor]:
        given = {  # a library reads memory as it lies, without the sign that is still to come
            port: x.resolve_neg().contiguous().view(-1) for port, x in zip(way.reads, tensors, strict=True)
        }
        results: dict[Port, torch.Tensor] = {}
        device = self._device.type
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            answer(in_order(way.sections), given, results)
        return results

    def _wrong(self, tensors: Sequence[Any]) -> str:
        """Why a list does not fit, or nothing; a port of one axis takes any shape of as many elements."""
        unfit = [
            place for place, (x, spec) in enumerate(zip(tensors, self._specs, strict=False))
            if not self._fits(x, spec)
        ]  # fmt: skip
        if unfit or len(tensors) != len(self._specs):
            return (
                f"{self._name} takes a list of {len(self._specs)} tensors on {self._device}; got {len(tensors)}"
                f"{self._misfit(tensors, unfit)}. {what_there_is(ENTRIES)}"
            )
        for port, spec, x in zip(self.inputs, self._specs, tensors, strict=True):
            if outside := self._outside(spec, x):
                return f"{self._name}: {port_text(port)} has {outside}"
        if self._gradient == "none" and _flows(tensors):
            return (
                f"{self.case} passes no gradients on: call it under torch.no_grad() or with detached"
                " tensors (`parameter.grad`, not `parameter`)"
            )
        return ""

    def _fits(self, x: Any, spec: Spec) -> bool:
        return spec.admits(x, self._device.type) and (
            x.shape == spec.shape or (len(spec.shape) == 1 and x.numel() == spec.shape[0])
        )

    def _misfit(self, tensors: Sequence[Any], unfit: Sequence[int]) -> str:
        """Which tensor does not fit, and what it is."""
        if not unfit:
            return f": {port_text(self.inputs[len(tensors)])} is not there" * (
                len(tensors) < len(self._specs)
            )
        port, spec, x = self.inputs[unfit[0]], self._specs[unfit[0]], tensors[unfit[0]]
        more = unfit[1:] if len(tensors) == len(self._specs) else ()
        others = f" (those at {', '.join(map(str, more))} do not fit either)" if more else ""
        return (
            f", and {shown(x)} at {unfit[0]} in place of {port_text(port)} {spec.shape} {spec.dtype}{others}"
        )

    def _outside(self, spec: Spec, x: torch.Tensor) -> str:
        """What is out of the range that was declared, and the mend, or nothing.

        Looked at where no device has to be waited for, and in the checked mode. A number that stands for nothing
        (padding) may be -inf beside the range.
        """
        if spec.within is None or (self._agreement is None and x.device.type != "cpu"):
            return ""
        ids = spec.dtype is torch.int64
        low, high = (end.item() for end in x.aminmax())
        if low == -math.inf < high:
            low = x.masked_fill(x == low, high).min().item()
        if high == -math.inf or (spec.within[0] <= low and high <= spec.within[1]):
            return ""
        mend = (
            "give such tokens another id, and leave out what is made of them"
            if ids
            else "keep to what the Case declares, or deploy one without"
        )
        what = "ids" if ids else "values"
        return (
            f"{what} from {low:g} to {high:g}, and {spec.within[0]} to {spec.within[1]} are allowed: {mend}"
        )


class _Way:
    """One direction of a group: the ports that it reads and writes, and what runs between them.

    shared: ports whose memory is not their own. same: port -> the index of the input that it is.
    """

    def __init__(
        self, number: int, sections: Iterable[Section], reads: tuple[Port, ...], writes: tuple[Port, ...]
    ) -> None:
        self.reads, self.writes = reads, writes
        self.sections = [section for section in sections if section.group == number]
        self.shared = {port: of for section in self.sections for port, of in section.shared.items()}
        self.same = {port: reads.index(of) for port, of in self.shared.items() if of is not None}
        self.is_identity = len(self.same) == len(writes) and not any(one.calls for one in self.sections)


class _Through(torch.autograd.Function):
    """forward and backward of a group."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group = group
        ctx.layouts = [_layout(x) for x, flows in zip(tensors, group.differentiable, strict=True) if flows]
        outputs, kept = group.forward(tensors)
        ctx.save_for_backward(*kept)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        group: Group = ctx.group
        back = iter(group.gradients("backward", (*cotangents, *ctx.saved_tensors), ctx.layouts))
        return (None, *(next(back) if flows else None for flows in group.differentiable))


class _InBackward(torch.autograd.Function):
    """The identity; what the group computes is done to the gradients."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group, ctx.layouts = group, [_layout(x) for x in tensors]
        return tensors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, *ctx.group.gradients("forward", cotangents, ctx.layouts))


class _Layout(NamedTuple):
    """Shape and strides (None: row by row) of a result. in_rows: elements follow each other row by row."""

    shape: Sequence[int]
    strides: tuple[int, ...] | None = None
    in_rows: bool = True


def _layout(x: torch.Tensor) -> _Layout:
    """As torch.empty_like has it."""
    if x.is_contiguous():
        return _Layout(x.shape, x.stride())
    return _Layout(x.shape, torch.empty_like(x, device="meta").stride(), False)


def _own(value: torch.Tensor, is_shared: bool, like: _Layout) -> torch.Tensor:
    """A value that can be changed in place, and its changes are counted for itself."""
    x = value.view(like.shape)
    if like.strides is not None and like.strides != x.stride():
        if not like.in_rows:
            return torch.empty_strided(like.shape, like.strides, dtype=x.dtype, device=x.device).copy_(x)
        x = value.as_strided(like.shape, like.strides)  # axes of one element have strides of their own
    # `.data` and not `.detach()`: parts of one buffer would count changes together, and autograd would take a
    # change of one for a change of what it keeps of another.
    return x.clone() if is_shared else x.data


def _flows(tensors: Iterable[Any]) -> bool:
    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def _cotangents(of: Iterable[Port]) -> tuple[Port, ...]:
    return tuple((f"d_{port[0]}", *port[1:]) for port in of)
