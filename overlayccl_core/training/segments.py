"""The work of segments in torch, each under autograd on its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable
from torch.nn.functional import pad

from overlayccl_core.step.segment import Name, StepSegment, Value

Tensor = Any  # torch is not followed by the type checker
After = Callable[[str | None], tuple[Name, ...]]
Averaged = Sequence[tuple[str | None, int]]
"""(parameter, or None if this rank has none; elements) of each averaged tensor."""


def backward(outputs: tuple[Tensor, ...], cotangents: tuple[Tensor, ...]) -> None:
    """Run `torch.autograd.backward` without its checks: they cost a tenth of a small segment's time.

    Cotangents must have the outputs' shapes (the driver gives every value its port's) and dtypes. Megatron-LM's
    pipeline schedules call the engine in the same way.
    """
    Variable._execution_engine.run_backward(
        outputs, cotangents, False, False, (), allow_unreachable=True, accumulate_grad=True
    )  # keep_graph, create_graph, inputs


def at_once(
    segments: Iterable[StepSegment], given: dict[Name, Mapping[Value, Tensor]]
) -> Iterator[StepSegment]:
    """Yield segments that give again what they gave before, without their work.

    Args:
        given: What they gave; those that are not in it do their work, and then are.
    """

    def again(segment: StepSegment, values: Mapping[Value, Tensor]) -> Mapping[Value, Tensor]:
        if segment.name not in given:
            given[segment.name] = segment.work(values)
        return given[segment.name]

    for segment in segments:
        yield replace(segment, work=partial(again, segment))


def share_of_mean(loss: Tensor, microbatches: int) -> Tensor:
    """Return the cotangent of a microbatch's loss in the mean over microbatches, on the loss's device."""
    return torch.full_like(loss, 1 / microbatches)


class Recorded:
    """A function run under autograd on detached inputs, kept until its backward (as pipeline schedules do).

    Its activations live as long as this object does, at most until `backward`.
    """

    def __init__(self, function: Callable[..., Tensor | tuple[Tensor, ...]], *inputs: Tensor) -> None:
        self._inputs = [x.detach().requires_grad_() for x in inputs]
        with torch.enable_grad():
            results = function(*self._inputs)
        self._outputs = results if isinstance(results, tuple) else (results,)

    @property
    def values(self) -> tuple[Tensor, ...]:
        """The results, detached."""
        return tuple(x.detach() for x in self._outputs)

    def backward(self, *cotangents: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs' gradients and accumulate those of parameters in place; once only."""
        backward(self._outputs, cotangents)
        gradients = tuple(x.grad for x in self._inputs)
        self._inputs, self._outputs = [], ()
        return gradients


def averaging(parameters: Mapping[str, Tensor], averaged: Averaged, after: After) -> Iterator[StepSegment]:
    """Yield a segment for each gradient, of site `gradients`, and one that puts their means in the parameters.

    A gradient smaller than its tensor is padded with zeros; a tensor without a parameter is all zeros.

    Args:
        after: Returns the last segments that add to a parameter's gradient (None: of a tensor without one).
    """
    for i, (name, size) in enumerate(averaged):
        given = ("gradients", ("gradient", i))
        work = partial(_gradient, given, parameters, name, size)
        yield StepSegment(name=("gradient", i), gives=(given,), after=after(name), work=work)
    needs = tuple(("gradients", ("mean", i)) for i in range(len(averaged)))
    yield StepSegment(name=("means",), needs=needs, work=partial(_take_means, parameters, averaged))


def _gradient(
    given: Value, parameters: Mapping[str, Tensor], name: str | None, size: int, _v: Mapping[Value, Tensor]
) -> dict[Value, Tensor]:
    if name is None:
        return {given: next(iter(parameters.values())).new_zeros(size)}
    gradient = parameters[name].grad
    missing = size - gradient.numel()
    return {given: pad(gradient.flatten(), (0, missing)) if missing else gradient}


def _take_means(
    parameters: Mapping[str, Tensor], averaged: Averaged, v: Mapping[Value, Tensor]
) -> dict[Value, Tensor]:
    for i, (name, _) in enumerate(averaged):
        if name is not None:
            parameter = parameters[name]
            parameter.grad = v["gradients", ("mean", i)][: parameter.numel()].view_as(parameter)
    return {}
