"""The model's own work in a training step: segments over named values, each under autograd on its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable

from overlayccl_core.program.nodes import Port

Tensor = Any  # torch is not followed by the type checker
Value = tuple[str, Port]  # (site, port): a port of the Problem at one site of the step
Name = tuple[str | int, ...]
After = Callable[[str], tuple[Name, ...]]
Work = Callable[[Mapping[Value, Tensor]], Mapping[Value, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSegment:
    """A piece of the model: runs when `needs` are written and `after` have run; then its `gives` exist."""

    name: Name
    needs: tuple[Value, ...] = ()
    gives: tuple[Value, ...] = ()
    after: tuple[Name, ...] = ()
    work: Work  # {needs: tensors of the port's shape} -> {gives: tensors}, all detached
    left_over: bool = False  # run while a module has a call in flight, else before the next segment


def backward(outputs: tuple[Tensor, ...], cotangents: tuple[Tensor, ...]) -> None:
    """Run `torch.autograd.backward` without its checks: they cost a tenth of a small segment's time.

    Cotangents must have the outputs' shapes (the driver gives every value its port's) and dtypes. Megatron-LM's
    pipeline schedules call the engine in the same way.
    """
    Variable._execution_engine.run_backward(
        outputs, cotangents, False, False, (), allow_unreachable=True, accumulate_grad=True
    )  # keep_graph, create_graph, inputs


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


def averaging(parameters: Mapping[str, Tensor], names: Sequence[str], after: After) -> Iterator[StepSegment]:
    """Yield a segment for each gradient, of site `gradients`, and one that puts their means in the parameters.

    names: of the averaged parameters. after: the last segments that add to a parameter's gradient.
    """
    for i, name in enumerate(names):
        given = ("gradients", ("gradient", i))
        work = partial(_gradient, given, parameters, name)
        yield StepSegment(name=("gradient", i), gives=(given,), after=after(name), work=work)
    needs = tuple(("gradients", ("mean", i)) for i in range(len(names)))
    yield StepSegment(name=("means",), needs=needs, work=partial(_take_means, parameters, names))


def _gradient(
    given: Value, parameters: Mapping[str, Tensor], name: str, _v: Mapping[Value, Tensor]
) -> dict[Value, Tensor]:
    return {given: parameters[name].grad}


def _take_means(
    parameters: Mapping[str, Tensor], names: Sequence[str], v: Mapping[Value, Tensor]
) -> dict[Value, Tensor]:
    for i, name in enumerate(names):
        parameters[name].grad = v["gradients", ("mean", i)].view_as(parameters[name])
    return {}
