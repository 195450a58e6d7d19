"""One training step of a tensor-parallel model, cut into segments at its sums over ranks.

Sites (Megatron-LM, section 3): `exit` sums what the ranks add to the residual stream in the forward pass; `entry`
sums the gradients of a sublayer's input in the backward pass. Ports of both: partial, total [m, sublayer].
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch

from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Recorded, StepSegment, Tensor, Value

Values = Mapping[Value, Tensor]


class TensorParallelStep:
    """Segments of one step over microbatches of tokens int64[B, S + 1]; gradients end up in the parameters."""

    def __init__(self, pieces: Pieces, microbatches: Sequence[Tensor]) -> None:
        self.pieces = pieces
        self.tokens = microbatches
        self.losses: dict[int, float] = {}
        self._entered: dict[tuple[int, int], Recorded] = {}
        self._sharded: dict[tuple[int, int], Recorded] = {}
        self._residual: dict[int, Tensor] = {}

    def segments(self) -> Iterator[StepSegment]:
        """Forward and backward of every sublayer, the loss of every microbatch."""
        last = self.pieces.sublayers - 1
        for m in range(len(self.tokens)):
            for layer in range(self.pieces.sublayers):
                yield StepSegment(
                    name=("forward", m, layer),
                    needs=(_exit("total", m, layer - 1),) if layer else (),
                    gives=(_exit("partial", m, layer),),
                    work=partial(self._forward, m, layer),
                )
                yield StepSegment(
                    name=("backward", m, layer),
                    needs=(_entry("total", m, layer),),
                    gives=(_entry("partial", m, layer - 1),) if layer else (),
                    after=(("loss", m),) if layer == last else (),
                    work=partial(self._backward, m, layer),
                )
            yield StepSegment(
                name=("loss", m),
                needs=(_exit("total", m, last),),
                gives=(_entry("partial", m, last),),
                work=partial(self._loss, m),
            )

    def _forward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        if layer:
            before = v[_exit("total", m, layer - 1)]
            entered = Recorded(lambda x, total: self._enter(layer, x + total), self._residual[m], before)
        else:
            entered = Recorded(lambda: self._enter(0, self.pieces.embed(self.tokens[m][:, :-1])))
        self._entered[m, layer] = entered
        self._residual[m], h = entered.values
        sharded = self._sharded[m, layer] = Recorded(lambda h: self.pieces.partial(layer, h), h)
        return {_exit("partial", m, layer): sharded.values[0]}

    def _enter(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """(residual stream, its norm)."""
        return x, self.pieces.normed(layer, x)

    def _loss(self, m: int, v: Values) -> dict[Value, Tensor]:
        last = self.pieces.sublayers - 1
        loss = Recorded(
            lambda base, total: self.pieces.loss(base + total, self.tokens[m][:, 1:]) / len(self.tokens),
            self._residual[m],
            v[_exit("total", m, last)],
        )
        self.losses[m] = float(loss.values[0]) * len(self.tokens)
        self._residual[m], cotangent = loss.backward(torch.tensor(1.0))
        return {_entry("partial", m, last): self._sharded[m, last].backward(cotangent)[0]}

    def _backward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        entered = self._entered.pop((m, layer))
        del self._sharded[m, layer]
        gradients = entered.backward(self._residual[m], v[_entry("total", m, layer)])
        if not layer:
            return {}
        self._residual[m], cotangent = gradients
        return {_entry("partial", m, layer - 1): self._sharded[m, layer - 1].backward(cotangent)[0]}


def _exit(name: str, *index: int) -> Value:
    return "exit", (name, *index)


def _entry(name: str, *index: int) -> Value:
    return "entry", (name, *index)
