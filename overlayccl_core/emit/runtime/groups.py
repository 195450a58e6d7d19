"""Groups of ports under autograd: a list of tensors in, a list of tensors out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

from overlayccl_core.emit.runtime.agreement import Agreement, raised
from overlayccl_core.emit.runtime.entry import Entry, Spec, oddity, port_text, shown, what_there_is
from overlayccl_core.emit.runtime.events import Port, Section, answer, in_order
from overlayccl_core.emit.runtime.given import ENTRIES


class Group:
    """Inputs that exist together and the outputs made of them: a list of tensors in, a list of tensors out.

    `inputs` and `outputs` are the ports in the order of the lists. All ranks call it, in the same order, with the
    Case's `arguments`. An output lies in memory (as by torch.empty_like) like the first input of its shape whose
    index begins with its own; `like`: that input's index, or None. A gradient lies like its input, anything else
    row by row. Outputs saved for the backward stay inside. `kept`: the ports read by the backward beside the
    cotangents: inputs, outputs, saved outputs. If the Case runs in the backward pass, `inputs` are the ports it
    writes there, and `outputs` the ports it reads; each output is its input.
    """

    def __init__(
        self,
        case: str,
        entry: Entry,
        number: int,
        sections: dict[str, tuple[Section, ...]],
        device: torch.device,
        agreement: Agreement,
    ) -> None:
        self.case, self.number, self._name = case, number, f"group {number} of {case}"
        reads, written = entry.groups[number]
        taken, given = entry.inputs["forward"], entry.outputs["forward"]
        saved = tuple(p for p in written if given[p].saved)
        writes = tuple(p for p in written if p not in saved)
        self._saved = [_Layout(given[p].shape) for p in saved]
        self._passes = {"forward": _Pass(number, sections["forward"], reads, (*writes, *saved))}
        self.inputs, self.outputs = reads, writes
        made = (*writes, *saved)
        is_in_backward = entry.gradient == "in_backward"
        if is_in_backward:  # its sums are gradients of its inputs
            self.inputs, self.outputs, taken, given = writes, reads, given, taken
        there = entry.inputs.get("backward", {})
        self.kept = tuple(p for p in (*self.inputs, *made) if p in there)
        there = entry.outputs.get("backward", {})
        self.differentiable = [port in there for port in _cotangents(self.inputs)]
        self._gradient, self._device, self._agreement = entry.gradient, device, agreement
        self._specs = [taken[port] for port in self.inputs]
        self._given = [given[port] for port in self.outputs]
        self.like = [  # for each output the input beside it, if the Case has them alike
            next((i for i, x in enumerate(self.inputs) if taken[x].shape == given[y].shape
                  and _is_beside(*((x, y) if is_in_backward else (y, x)))), None)
            for y in self.outputs
        ]  # fmt: skip
        if "backward" in sections:
            reads = (*_cotangents(self.outputs), *self.kept)
            writes = tuple(port for port in _cotangents(self.inputs) if port in there)
            self._passes["backward"] = _Pass(number, sections["backward"], reads, writes)

    def __call__(
        self, tensors: torch.Tensor | Iterable[torch.Tensor] = (), *more: Any, **arguments: Any
    ) -> list[torch.Tensor]:
        came: list[Any] = []
        same = ""
        try:
            came += (tensors, *more) if more or isinstance(tensors, torch.Tensor) else tensors
            wrong = self._wrong(came) or self._agreement.unproven(self._name, arguments)
            if self._agreement.checks and not wrong:
                same = "".join(spec.same(x) for spec, x in zip(self._specs, came, strict=True))
        except Exception as error:
            wrong = raised(self._name, error)
        self._agreement.reach(self._name + " with gradients" * gradients_flow(came) + same, wrong)
        if self._gradient == "backward":
            return list(_Through.apply(self, *came))
        if self._gradient == "in_backward":
            return list(_InBackward.apply(self, *came))
        with torch.no_grad():
            return self.forward(came)[0]

    def forward(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return (the outputs, the tensors for the backward beside their cotangents)."""
        made = self.run("forward", tensors, [*self._layouts(tensors), *self._saved])
        at = dict(zip((*self.inputs, *self._passes["forward"].writes), (*tensors, *made), strict=True))
        return made[: len(self.outputs)], [at[port] for port in self.kept]

    def _layouts(self, tensors: Sequence[torch.Tensor]) -> list[_Layout]:
        """Return the outputs' layouts, given the inputs."""
        pairs = zip(self.like, self._given, strict=True)
        return [_Layout(spec.shape) if like is None else layout_of(tensors[like]) for like, spec in pairs]

    def run(
        self, direction: str, tensors: Sequence[torch.Tensor], layouts: Sequence[_Layout]
    ) -> list[torch.Tensor]:
        """Run the calls, unseen by autograd.

        Each result can be changed in place: no memory of an input's or another's, a version of its own.
        """
        one = self._passes[direction]
        results = self._answered(one, tensors)
        return [_own(results[p], p in one.shared, like) for p, like in zip(one.writes, layouts, strict=True)]

    def gradients(
        self, direction: str, cotangents: Sequence[torch.Tensor], layouts: Sequence[_Layout]
    ) -> list[torch.Tensor]:
        """Run the calls in a backward pass: from cotangents of the outputs to those of the inputs.

        A cotangent may come back as itself: autograd copies it if two leaves would share it.
        """
        one, doing = self._passes[direction], f"the backward of {self._name}"
        odd = () if one.is_identity else [i for i, x in enumerate(cotangents) if oddity(x)]
        wrong = f"{doing}: the gradient at {odd[0]} is a {shown(cotangents[odd[0]])}" if odd else ""
        self._agreement.reach(doing, wrong)
        results = {} if one.is_identity else self._answered(one, cotangents)
        back = []
        for port, like in zip(one.writes, layouts, strict=True):
            if port in one.same:
                x = cotangents[one.same[port]]
                back.append(x if x.shape == like.shape else x.reshape(like.shape).clone())
            else:
                back.append(_own(results[port], port in one.shared, like))
        return back

    def _answered(self, one: _Pass, tensors: Sequence[torch.Tensor]) -> dict[Port, torch.Tensor]:
        given = {  # a library reads memory as it lies, without a pending negation
            port: x.resolve_neg().contiguous().view(-1) for port, x in zip(one.reads, tensors, strict=True)
        }
        results: dict[Port, torch.Tensor] = {}
        device = self._device.type
        with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
            answer(in_order(one.sections), given, results)
        return results

    def _wrong(self, tensors: Sequence[Any]) -> str:
        """Return why a list does not fit, or nothing; a port of one axis takes any shape of as many elements."""
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
            if outside := spec.outside(x, self._agreement.checks):
                return f"{self._name}: {port_text(port)} has {outside}"
        if self._gradient == "none" and gradients_flow(tensors):
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
        """Describe the first tensor that does not fit or is missing."""
        if not unfit:
            missing = self.inputs[len(tensors) :]
            return f": {port_text(missing[0])} is not there" if missing else ""
        port, spec, x = self.inputs[unfit[0]], self._specs[unfit[0]], tensors[unfit[0]]
        more = unfit[1:] if len(tensors) == len(self._specs) else ()
        others = f" (those at {', '.join(map(str, more))} do not fit either)" if more else ""
        return (
            f", and {shown(x)} at {unfit[0]} in place of {port_text(port)} {spec.shape} {spec.dtype}{others}"
        )


class _Pass:
    """One pass of a group: the ports it reads and writes, and the sections between them.

    shared: ports without memory of their own. same: port -> the index of the identical input.
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
    """Forward and backward of a group."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group = group
        ctx.layouts = [layout_of(x) for x, flows in zip(tensors, group.differentiable, strict=True) if flows]
        outputs, kept = group.forward(tensors)
        ctx.save_for_backward(*kept)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        group: Group = ctx.group
        refuse_second_derivative(group)
        back = iter(group.gradients("backward", (*cotangents, *ctx.saved_tensors), ctx.layouts))
        return (None, *(next(back) if flows else None for flows in group.differentiable))


class _InBackward(torch.autograd.Function):
    """The identity; the group runs on the gradients."""

    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.group, ctx.layouts = group, [layout_of(x) for x in tensors]
        return tuple(tensors[i] for i in group.like if i is not None)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        refuse_second_derivative(ctx.group)
        return (None, *ctx.group.gradients("forward", cotangents, ctx.layouts))


def refuse_second_derivative(group: Group) -> None:
    """Raise if this backward pass is recorded: nothing records a group's part, it would be 0."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"{group.case} has first derivatives only, and this backward pass records a graph of its own "
            "(create_graph=True): use plain calls where you need second ones"
        )


class _Layout(NamedTuple):
    """Shape and strides (None: row by row) of a result. in_rows: elements follow each other row by row."""

    shape: Sequence[int]
    strides: tuple[int, ...] | None = None
    in_rows: bool = True


def layout_of(x: torch.Tensor) -> _Layout:
    """Return the layout of torch.empty_like."""
    if x.is_contiguous():
        return _Layout(x.shape, x.stride())
    return _Layout(x.shape, torch.empty_like(x, device="meta").stride(), False)


def _own(value: torch.Tensor, is_shared: bool, like: _Layout) -> torch.Tensor:
    """Return a value that can be changed in place, with a count of changes of its own."""
    x = value.view(like.shape)
    if like.strides is not None and like.strides != x.stride():
        if not like.in_rows:
            return torch.empty_strided(like.shape, like.strides, dtype=x.dtype, device=x.device).copy_(x)
        x = value.as_strided(like.shape, like.strides)  # axes of one element have strides of their own
    # `.data` and not `.detach()`: parts of one buffer would count changes together, and autograd would take a
    # change of one for a change of another that it keeps.
    return x.clone() if is_shared else x.data


def gradients_flow(tensors: Iterable[Any]) -> bool:
    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)


def _is_beside(whole: Port, part: Port) -> bool:
    """Return whether a whole's index begins a part's: total[m, l] is beside partial[m, l] and partial[m, l, 0]."""
    return part[1 : len(whole)] == whole[1:]


def _cotangents(of: Iterable[Port]) -> tuple[Port, ...]:
    return tuple((f"d_{port[0]}", *port[1:]) for port in of)
