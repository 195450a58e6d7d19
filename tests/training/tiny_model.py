"""A tensor-parallel residual model cut into segments, and the same model unsharded."""

from collections.abc import Iterator

import torch
from torch.nn import functional

from overlayccl_core.program.nodes import Port
from overlayccl_core.training.segments import Recorded, StepSegment, Tensor, Value

WIDTH, HIDDEN, TOKENS = 8, 16, 4
SHAPE = (1, TOKENS, WIDTH)


def full_parameters(layers: int) -> list[dict[str, torch.Tensor]]:
    """Of every layer, the same on all ranks."""
    random = torch.Generator().manual_seed(1)
    return [
        {
            "norm": 1 + 0.1 * torch.randn(WIDTH, generator=random),
            "up": torch.randn(HIDDEN, WIDTH, generator=random) / WIDTH**0.5,
            "down": torch.randn(WIDTH, HIDDEN, generator=random) / HIDDEN**0.5,
        }
        for _ in range(layers)
    ]


def data(microbatches: int, replicas: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(inputs, targets) [replica, microbatch, 1, tokens, width]."""
    random = torch.Generator().manual_seed(2)
    shape = (replicas, microbatches, *SHAPE)
    return torch.randn(shape, generator=random), torch.randn(shape, generator=random)


def shard(name: str, full: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """What one rank of a tensor-parallel group holds of a parameter (or of its gradient)."""
    part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
    return full if name == "norm" else full[part] if name == "up" else full[:, part]


def unsharded_gradients(layers: int, microbatches: int, replicas: int) -> list[dict[str, torch.Tensor]]:
    """Gradients of the mean loss over replicas and microbatches."""
    parameters = [{k: x.clone().requires_grad_() for k, x in p.items()} for p in full_parameters(layers)]
    xs, ys = data(microbatches, replicas)
    for x, y in zip(xs.flatten(0, 1), ys.flatten(0, 1), strict=True):
        for p in parameters:
            x = x + functional.linear(
                functional.silu(functional.linear(functional.rms_norm(x, (WIDTH,), p["norm"]), p["up"])),
                p["down"],
            )
        ((x - y).square().mean() / microbatches / replicas).backward()
    return [{k: x.grad for k, x in p.items() if x.grad is not None} for p in parameters]


class Block:
    """One layer on one rank: its norm, and its shard of the two matrices."""

    def __init__(self, full: dict[str, torch.Tensor], rank: int, ranks: int) -> None:
        self.parameters = {k: shard(k, x, rank, ranks).clone().requires_grad_() for k, x in full.items()}

    def enter(self, base: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """(residual stream, its norm): in front of the site `entry`."""
        x = base + total
        return x, functional.rms_norm(x, (WIDTH,), self.parameters["norm"])

    def partial(self, h: Tensor) -> Tensor:
        """This rank's part of the layer: in front of the site `exit`."""
        return functional.linear(
            functional.silu(functional.linear(h, self.parameters["up"])), self.parameters["down"]
        )


class TinyStep:
    """Segments of one step over M microbatches; `alive` counts blocks that hold activations.

    Sites `exit` (forward) and `entry` (backward): ports partial, total [m, layer] of tp_mlp.
    """

    def __init__(self, layers: int, xs: torch.Tensor, ys: torch.Tensor, rank: int, ranks: int) -> None:
        self.blocks = [Block(full, rank, ranks) for full in full_parameters(layers)]
        self.xs, self.ys = xs, ys
        self.layers, self.microbatches = layers, len(xs)
        self.entered: dict[tuple[int, int], Recorded] = {}
        self.sharded: dict[tuple[int, int], Recorded] = {}
        self.residual: dict[int, Tensor] = {}
        self.peak_alive = 0

    def segments(self) -> Iterator[StepSegment]:
        """Forward and backward of every block, the loss of every microbatch."""
        for m in range(self.microbatches):
            for layer in range(self.layers):
                yield StepSegment(
                    name=("forward", m, layer),
                    needs=(_exit("total", m, layer - 1),) if layer else (),
                    gives=(_exit("partial", m, layer),),
                    work=lambda v, m=m, layer=layer: self._forward(v, m, layer),
                )
                yield StepSegment(
                    name=("backward", m, layer),
                    needs=(_entry("total", m, layer),),
                    gives=(_entry("partial", m, layer - 1),) if layer else (),
                    after=(("loss", m),) if layer == self.layers - 1 else (),
                    work=lambda v, m=m, layer=layer: self._backward(v, m, layer),
                )
            last = self.layers - 1
            yield StepSegment(
                name=("loss", m),
                needs=(_exit("total", m, last),),
                gives=(_entry("partial", m, last),),
                work=lambda v, m=m: self._loss(v, m),
            )

    def _forward(self, v: dict[Value, Tensor], m: int, layer: int) -> dict[Value, Tensor]:
        before = v[_exit("total", m, layer - 1)] if layer else torch.zeros(SHAPE)
        base = self.residual.get(m, self.xs[m])
        entered = self.entered[m, layer] = Recorded(self.blocks[layer].enter, base, before)
        self.residual[m], h = entered.values
        sharded = self.sharded[m, layer] = Recorded(self.blocks[layer].partial, h)
        self.peak_alive = max(self.peak_alive, len(self.sharded))
        return {_exit("partial", m, layer): sharded.values[0]}

    def _loss(self, v: dict[Value, Tensor], m: int) -> dict[Value, Tensor]:
        last = self.layers - 1
        y = self.ys[m]
        loss = Recorded(
            lambda base, total: (base + total - y).square().mean() / self.microbatches,
            self.residual[m],
            v[_exit("total", m, last)],
        )
        self.residual[m], cotangent = loss.backward(torch.tensor(1.0))
        return {_entry("partial", m, last): self.sharded[m, last].backward(cotangent)[0]}

    def _backward(self, v: dict[Value, Tensor], m: int, layer: int) -> dict[Value, Tensor]:
        entered = self.entered.pop((m, layer))
        del self.sharded[m, layer]
        self.residual[m], cotangent = entered.backward(self.residual[m], v[_entry("total", m, layer)])
        if not layer:
            return {}
        return {_entry("partial", m, layer - 1): self.sharded[m, layer - 1].backward(cotangent)[0]}


def _exit(name: str, *index: int) -> Value:
    port: Port = (name, *index)
    return "exit", port


def _entry(name: str, *index: int) -> Value:
    port: Port = (name, *index)
    return "entry", port
