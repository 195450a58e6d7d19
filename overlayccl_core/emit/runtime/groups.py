"""Groups of ports under autograd: a list of tensors in, a list of tensors out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from overlayccl_core.emit.runtime.entry import Entry, port_text, what_there_is
from overlayccl_core.emit.runtime.events import Port, Section, answer
from overlayccl_core.emit.runtime.given import ENTRIES


class Group:
    """Inputs that exist together and the outputs made of them: a list of tensors in, a list of tensors out.

    `inputs` and `outputs` are the ports in the order of the lists. All ranks call it, in the same order.
    """

    def __init__(
        self,
        case: str,
        entry: Entry,
        number: int,
        sections: dict[str, tuple[Section, ...]],
        device: torch.device,
    ) -> None:
        self.case, self.number = case, number
        self.inputs, self.outputs = entry.groups[number]
        self._gradient, self._device = entry.gradient, device
        self._sections = {
            direction: [section for section in of if section[0] == number]
            for direction, of in sections.items()
        }
        self._specs = [entry.inputs["forward"][port] for port in self.inputs]
        self._given = [entry.outputs["forward"][port] for port in self.outputs]
        by_index = {port[1:]: i for i, port in enumerate(self.inputs)}
        same = [by_index.get(port[1:]) for port in self.outputs]
        self._like = [  # an output has the shape of the input of its index, if that has as many elements
            i if i is not None and self._specs[i].shape == spec.shape else None
            for i, spec in zip(same, self._given, strict=True)
        ]

    def __call__(self, tensors: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
        tensors = self._checked(tensors)
        if self._gradient == "backward":
            return list(_Through.apply(self, *tensors))
        if self._gradient == "in_backward":
            return list(_InBackward.apply(self, *tensors))
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            raise ValueError(
                f"{self.case} passes no gradients on: call it under torch.no_grad() or with detached"
                " tensors (`parameter.grad`, not `parameter`)"
            )
        with torch.no_grad():
            return apart(self.run("forward", tensors, self.shapes(tensors)), tensors)

    def shapes(self, tensors: Sequence[torch.Tensor]) -> list[Sequence[int]]:
        """Of the outputs, given the inputs."""
        pairs = zip(self._like, self._given, strict=True)
        return [spec.shape if like is None else tensors[like].shape for like, spec in pairs]

    def run(
        self, direction: str, tensors: Sequence[torch.Tensor], shapes: Sequence[Sequence[int]]
    ) -> list[torch.Tensor]:
        """The calls themselves, without autograd; backward: from cotangents of the outputs to those of inputs.

        Results may be parts of one buffer, or have the memory of an input.
        """
        reads, writes = self.inputs, self.outputs
        if direction == "backward":
            reads, writes = _cotangents(self.outputs), _cotangents(self.inputs)
        given = {port: x.detach().contiguous().view(-1) for port, x in zip(reads, tensors, strict=True)}
        results: dict[Port, torch.Tensor] = {}
        with torch.autocast(self._device.type, enabled=False):
            answer(self._sections[direction], given, results)
        return [results[port].reshape(shape) for port, shape in zip(writes, shapes, strict=True)]

    def _checked(self, tensors: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """A list that fits; a port of one axis takes any shape of as many elements."""
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        fits = len(tensors) == len(self._specs) and all(
            (x.shape == spec.shape or (len(spec.shape) == 1 and x.numel() == spec.shape[0]))
            and x.dtype is spec.dtype
            and x.device.type == self._device.type
            for x, spec in zip(tensors, self._specs, strict=True)
        )
        if not fits:
            pairs = zip(self.inputs, self._specs, strict=True)
            takes = _some(f"{port_text(port)} {spec.shape} {spec.dtype}" for port, spec in pairs)
            got = _some(f"{tuple(x.shape)} {x.dtype} on {x.device}" for x in tensors)
            raise ValueError(
                f"group {self.number} of {self.case} takes a list of {len(self._specs)} tensors on"
                f" {self._device}: {takes}; got {len(tensors)}: {got}. {what_there_is(ENTRIES)}"
            )
        return tensors


class _Through(torch.autograd.Function):
    """forward and backward of a group."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group, ctx.shapes = group, [x.shape for x in tensors]
        return tuple(apart(group.run("forward", tensors, group.shapes(tensors)), tensors))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, *gradients(ctx.group.run("backward", cotangents, ctx.shapes), cotangents))


class _InBackward(torch.autograd.Function):
    """The identity; what the group computes is done to the gradients."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group = group
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        shapes = [x.shape for x in cotangents]
        return (None, *gradients(ctx.group.run("forward", cotangents, shapes), cotangents))


def apart(values: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Values of which each can be changed in place: no memory of an input's or another's, a version of its own."""
    taken = {x.untyped_storage().data_ptr() for x in inputs}
    separate, end = list(values), 0
    for i in sorted(range(len(values)), key=lambda i: values[i].data_ptr()):
        x = values[i]
        if x.data_ptr() < end or x.untyped_storage().data_ptr() in taken:
            separate[i] = x.clone()
        else:
            end = x.data_ptr() + x.nbytes
    # `.data` and not `.detach()`: parts of one buffer would count changes together, and autograd would take a
    # change of one for a change of what it keeps of another.
    return [x.data for x in separate]


def gradients(values: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """`apart`, but a cotangent that comes back is itself: autograd copies it where two leaves would share it."""
    back = {(x.data_ptr(), x.shape): x for x in cotangents if x.is_contiguous()}
    same = [back.get((x.data_ptr(), x.shape)) for x in values]
    others = iter(apart([x for x, y in zip(values, same, strict=True) if y is None], cotangents))
    return [next(others) if y is None else y for y in same]


def _cotangents(of: Iterable[Port]) -> tuple[Port, ...]:
    return tuple((f"d_{port[0]}", *port[1:]) for port in of)


def _some(texts: Iterable[str]) -> str:
    texts = list(texts)
    return ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "")
