"""One training step of a model whose experts and head lie over the ranks, and whose rest every rank has.

A rank has texts of its own. Sites, of layer l and microbatch m; each has its backward beside it (`_backward`):

  dispatch_l_m, combine_l_m  tokens to their experts and back. Ports send, received: rows by rank, expert and place.
  hidden_m                   the last hidden states of all ranks' tokens. Ports of fsdp_prefetch, one layer.
  loss_m_p                   their losses, each rank with its words. Ports of dist_ce.
  gradients                  of the replicated parameters. Ports of grad_ar.

A stretch of the model between two exchanges is one autograd graph. Cotangents are those of the sum over ranks
of the ranks' mean losses. So a rank's own tokens have those of its own mean loss, and replicated parameters get
the mean over ranks. Experts and head have met the tokens of all ranks: their gradients are divided by the
ranks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch.nn.functional import pad

from overlayccl_core.step.segment import Name, StepSegment, Value
from overlayccl_core.training.pieces import Module
from overlayccl_core.training.routing import Routes, packed, summed
from overlayccl_core.training.segments import Recorded, Tensor, averaging, share_of_mean

Values = Mapping[Value, Tensor]
Outputs = tuple[Tensor, ...]
LOSS_BACKWARD = ("d_mean", "d_losses", "shift", "log_sum", "logits", "targets")
CARRIED = ("residual stream", "weights of the routes")  # from a stretch to the next one, past the experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """Texts of one rank, and what else it reads in a step.

    Attributes:
        texts: int64[B, S + 1].
        targets: int64[B, N, S], what follows each token of all ranks' texts: the loader knows them, as ranks that
            share a head are fed the same targets; None where there is no rank beside this one.
        choices: Of each layer the routing, a text's along the first axis; empty: the router chooses.
    """

    texts: Tensor
    targets: Tensor | None = None
    choices: tuple[Tensor, ...] = ()

    def on(self, device: str) -> "Fed":
        """Move all to a device."""
        return Fed(
            texts=self.texts.to(device),
            targets=None if self.targets is None else self.targets.to(device),
            choices=tuple(one.to(device) for one in self.choices),
        )

    def split(self, parts: int) -> list["Fed"]:
        """Cut into equal parts, by texts."""
        each = len(self.texts) // parts
        cuts = [slice(k * each, (k + 1) * each) for k in range(parts)]
        return [
            Fed(
                texts=self.texts[cut],
                targets=None if self.targets is None else self.targets[cut],
                choices=tuple(one[cut] for one in self.choices),
            )
            for cut in cuts
        ]

    def routed(self, routes: Iterable[Routes]) -> "Fed":
        """Return the same with the routing of each layer fixed."""
        return replace(self, choices=tuple(one.choice for one in routes))

    @property
    def everyones(self) -> Tensor:
        """int64[N * T]: the targets of all ranks' tokens, rank after rank."""
        assert self.targets is not None
        return self.targets.transpose(0, 1).flatten()


class Experts(Protocol):
    """A model of layers, each attention and experts: T tokens of this rank, D channels, R rows of an expert."""

    parameters: dict[str, Tensor]
    layers: int
    shares: Sequence[int]  # experts of each rank
    experts_here: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""

    def is_spread(self, name: str) -> bool:
        """Return whether a parameter lies over the ranks."""

    def room(self, batch: Fed) -> int:
        """Return R: the rows of an expert for tokens of one rank."""

    def losses(self, batch: Fed) -> int:
        """Return into how many parts the tokens of all ranks are cut for their losses."""

    def stretch_of(self, name: str) -> int:
        """Return the stretch of the model that uses a replicated parameter: 0 .. layers."""

    def enter(self, batch: Fed) -> Tensor:
        """Return the input of the first layer, [B, S, D]."""

    def attended(self, layer: int, x: Tensor) -> Tensor:
        """Run a layer's attention: [B, S, D] -> [B, S, D]."""

    def routed(self, layer: int, x: Tensor, batch: Fed) -> tuple[Tensor, Routes, Outputs]:
        """Return the input of a layer's experts [T, D], its routes, and its part of the loss, if it has one."""

    def expert(self, layer: int, rows: Tensor) -> Tensor:
        """Run this rank's experts: [sources * experts_here * R, D] -> the same shape. Of zeros come zeros."""

    def hidden(self, x: Tensor) -> Tensor:
        """Return what the head reads: [B, S, D] -> [T, D]."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of this rank's words: [n, D] -> [n, V / N]."""


class Exchanging(Module):
    """A rank's part of the model as one autograd graph; `connect` sets what ranks do together."""

    def connect(
        self,
        dispatch: Callable[[Tensor, Routes], tuple[Tensor, Any]],
        combine: Callable[[Tensor, Routes, Any], Tensor],
        loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> None:
        """Set the two exchanges and the loss, all differentiable.

        Gradients are those of the sum over ranks of the ranks' mean losses (see above).

        Args:
            dispatch: (h [T, D], routes) -> (rows [N * experts_here * R, D] by source, then expert; anything, which
                `combine` gets).
            combine: (rows as these, routes, what `dispatch` left) -> [T, D].
            loss: (hidden [T, D], targets int64[N * T], head [V / N, D]) -> a loss whose mean over ranks is the mean
                over all N * T tokens.
        """
        self.dispatch, self.combine, self.loss = dispatch, combine, loss

    @property
    def shares(self) -> Sequence[int]:
        """The number of experts of each rank."""
        shares: Sequence[int] = self.pieces.shares
        return shares

    @property
    def spread(self) -> list[Tensor]:
        """The parameters whose gradients are to be divided by the number of ranks."""
        return [x for name, x in self.leaves().items() if self.pieces.is_spread(name)]

    @property
    def replicated(self) -> list[Tensor]:
        """The parameters whose gradients are to become their mean over ranks."""
        return [x for name, x in self.leaves().items() if not self.pieces.is_spread(name)]

    def forward(self, batch: Fed) -> Tensor:
        """Return the mean loss."""
        hidden, _, others = through(self.pieces, batch, self.dispatch, self.combine)
        return sum(others, self.loss(hidden, batch.everyones, self.pieces.parameters["head"]))


def through(
    pieces: Experts,
    batch: Fed,
    dispatch: Callable[[Tensor, Routes], tuple[Tensor, Any]],
    combine: Callable[[Tensor, Routes, Any], Tensor],
) -> tuple[Tensor, list[Routes], list[Tensor]]:
    """Run all layers: return what the head reads, the layers' routes, and their parts of the loss."""
    x, taken, others = pieces.enter(batch), list[Routes](), list[Tensor]()
    for layer in range(pieces.layers):
        x = pieces.attended(layer, x)
        h, routes, more = pieces.routed(layer, x, batch)
        rows, kept = dispatch(h, routes)
        x = x + combine(pieces.expert(layer, rows), routes, kept).view_as(x)
        taken.append(routes)
        others += more
    return pieces.hidden(x), taken, others


def to_own(h: Tensor, routes: Routes) -> tuple[Tensor, int]:
    """Dispatch where all experts are."""
    return packed(h, routes), len(h)


def from_own(rows: Tensor, routes: Routes, tokens: int) -> Tensor:
    """Combine where all experts are."""
    return summed(rows, routes, tokens)


class ExpertParallelStep:
    """Segments of one step over microbatches; gradients end up in the parameters."""

    def __init__(self, pieces: Experts, batches: Sequence[Fed]) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, Tensor] = {}
        self._replicated = [
            (name, x.numel()) for name, x in pieces.parameters.items() if not pieces.is_spread(name)
        ]
        self._stretches: dict[tuple[int, int], Recorded] = {}
        self._experts: dict[tuple[int, int], Recorded] = {}
        self._heads: dict[int, Recorded] = {}
        self._logits: dict[tuple[int, int], Tensor] = {}
        self._routes: dict[int, Routes] = {}  # of the layer whose experts are at work
        self._carried: dict[int, Outputs] = {}  # residual stream and weights, behind the last stretch
        self._cotangents: dict[int, Outputs] = {}  # of these

    def segments(self) -> Iterator[StepSegment]:
        """Yield forward and backward of all microbatches, the replicated gradients, their means, the division."""
        for m in range(len(self.batches)):
            yield from self._stretches_and_experts(m)
            yield from self._head_and_losses(m)
        yield from averaging(self.pieces.parameters, self._replicated, self._complete_after)
        yield StepSegment(name=("spread",), after=self._met_by_all(), work=self._divide)

    def _stretches_and_experts(self, m: int) -> Iterator[StepSegment]:
        """Stretch k leads to the experts of layer k, the last one to the head; experts lead to stretch k + 1."""
        last = self.pieces.layers
        for k in range(last + 1):
            forward, backward = partial(self._forward, m, k), partial(self._backward, m, k)
            entered = (_received("combine", k - 1, m),) if k else ()
            left = (_received("combine", k - 1, m, back=True),) if k else ()
            sent = _sent("dispatch", k, m) if k < last else _hidden(m, "shard", 0)
            returned = _sent("dispatch", k, m, back=True) if k < last else _hidden(m, "d_shard", 0)
            yield _segment(("forward", m, k), entered, (sent,), forward)
            yield _segment(("backward", m, k), (returned,), left, backward)
        for k in range(last):
            there, back = _received("dispatch", k, m), _sent("combine", k, m)
            d_there, d_back = _received("dispatch", k, m, back=True), _sent("combine", k, m, back=True)
            yield _segment(("experts", m, k), (there,), (back,), partial(self._at_experts, m, k))
            yield _segment(("d_experts", m, k), (d_back,), (d_there,), partial(self._back_at_experts, m, k))

    def _head_and_losses(self, m: int) -> Iterator[StepSegment]:
        parts = range(self.pieces.losses(self.batches[m]))
        given = [_of_loss(m, part, name) for name in ("logits", "targets") for part in parts]
        yield _segment(("head", m), (_hidden(m, "full", 0, 0),), given, partial(self._head, m))
        for part in parts:
            needs = [_of_loss(m, part, name) for name in ("mean", "shift", "log_sum")]
            gives = [_of_loss(m, part, name, back=True) for name in LOSS_BACKWARD]
            yield _segment(("loss", m, part), needs, gives, partial(self._loss, m, part))
        d_logits = [_of_loss(m, part, "d_logits", back=True) for part in parts]
        d_full = _hidden(m, "d_full", 0, 0)
        yield _segment(("d_head", m), d_logits, (d_full,), partial(self._back_at_head, m))

    def _complete_after(self, parameter: str | None) -> tuple[Name, ...]:
        """The last segments adding to a replicated parameter's gradient."""
        assert parameter is not None
        stretch = self.pieces.stretch_of(parameter)
        return tuple(("backward", m, stretch) for m in range(len(self.batches)))

    def _met_by_all(self) -> tuple[Name, ...]:
        """The segments adding to the gradients of experts and head."""
        each = range(len(self.batches))
        of_experts = tuple(("d_experts", m, k) for m in each for k in range(self.pieces.layers))
        return (*of_experts, *(("d_head", m) for m in each))

    def _forward(self, m: int, k: int, received: Outputs) -> Outputs:
        """Sum what came back from the experts, and run the model up to the next exchange."""
        pieces, batch, before = self.pieces, self.batches[m], self._routes.pop(m, None)
        routes: list[Routes] = []

        def stretch(*inputs: Tensor) -> Outputs:
            if before is None:
                x = pieces.enter(batch)
            else:
                x, weights, rows = inputs
                x = x + summed(rows, replace(before, weights=weights), x[..., 0].numel()).view_as(x)
            if k == pieces.layers:
                return (pieces.hidden(x),)
            x = pieces.attended(k, x)
            h, found, more = pieces.routed(k, x, batch)
            routes.append(found)
            return packed(h, found), x, found.weights, *more

        run = self._stretches[m, k] = Recorded(stretch, *self._carried.pop(m, ()), *received)
        sent, *carried = run.values
        if routes:
            [self._routes[m]] = routes
            self._carried[m] = tuple(carried[: len(CARRIED)])
            for more in carried[len(CARRIED) :]:
                self._lost(m, more)
        return (sent,)

    def _at_experts(self, m: int, k: int, received: Outputs) -> Outputs:
        """Run the experts on what arrived; a buffer is as long as that of the rank with most experts."""
        [rows] = received
        run = self._experts[m, k] = Recorded(partial(self.pieces.expert, k), rows[: self._rows_here(m)])
        return (_as_long_as(rows, run.values[0]),)

    def _back_at_experts(self, m: int, k: int, returned: Outputs) -> Outputs:
        [d_rows] = returned
        [gradient] = self._experts.pop((m, k)).backward(d_rows[: self._rows_here(m)])
        return (_as_long_as(d_rows, gradient),)

    def _rows_here(self, m: int) -> int:
        """The rows that this rank's experts get from all ranks."""
        pieces = self.pieces
        return pieces.ranks * pieces.experts_here * pieces.room(self.batches[m])

    def _head(self, m: int, received: Outputs) -> Outputs:
        """Compute the logits of all ranks' tokens."""
        head = self._heads[m] = Recorded(self.pieces.logits, *received)
        parts = self.pieces.losses(self.batches[m])
        logits = head.values[0].chunk(parts)
        self._logits |= {(m, part): one for part, one in enumerate(logits)}
        return *logits, *self.batches[m].everyones.chunk(parts)

    def _loss(self, m: int, part: int, received: Outputs) -> Outputs:
        """Take the mean loss of a part of the tokens, and hand its backward what that needs."""
        mean, shift, log_sum = received
        parts = self.pieces.losses(self.batches[m])
        self._lost(m, mean.view(()) / parts)
        share = share_of_mean(mean, len(self.batches)) * (self.pieces.ranks / parts)
        targets = self.batches[m].everyones.chunk(parts)[part]
        return share, torch.zeros_like(shift), shift, log_sum, self._logits.pop((m, part)), targets

    def _back_at_head(self, m: int, d_logits: Outputs) -> Outputs:
        return self._heads.pop(m).backward(torch.cat(d_logits))

    def _backward(self, m: int, k: int, returned: Outputs) -> Outputs:
        """Run a stretch's backward; a layer's part of the loss has its share of the mean over microbatches."""
        run = self._stretches.pop((m, k))
        shares = [share_of_mean(one, len(self.batches)) for one in run.values[len(CARRIED) + 1 :]]
        gradients = run.backward(*returned, *self._cotangents.pop(m, ()), *shares)
        self._cotangents[m] = gradients[: len(CARRIED)]
        return gradients[len(CARRIED) :]

    def _lost(self, m: int, loss: Tensor) -> None:
        self.losses[m] = self.losses[m] + loss if m in self.losses else loss

    def _divide(self, _v: Values) -> dict[Value, Tensor]:
        """Turn gradients of the sum over ranks into those of the mean."""
        for name, parameter in self.pieces.parameters.items():
            if self.pieces.is_spread(name):
                parameter.grad /= self.pieces.ranks
        return {}


def _segment(
    name: Name, needs: Sequence[Value], gives: Sequence[Value], work: Callable[[Outputs], Outputs]
) -> StepSegment:
    """A segment whose work takes and gives values in order."""

    def named(values: Values) -> dict[Value, Tensor]:
        return dict(zip(gives, work(tuple(values[one] for one in needs)), strict=True))

    return StepSegment(name=name, needs=tuple(needs), gives=tuple(gives), work=named)


def _as_long_as(buffer: Tensor, rows: Tensor) -> Tensor:
    """Append zeros: a port has room for the rank with the most rows."""
    missing = len(buffer) - len(rows)
    return pad(rows, (0, 0, 0, missing)) if missing else rows


def _sent(exchange: str, layer: int, m: int, *, back: bool = False) -> Value:
    """What goes into an exchange; back: its gradient, which comes out of the exchange's backward."""
    site = f"{exchange}_{layer}_{m}"
    return (f"{site}_backward", ("d_send",)) if back else (site, ("send",))


def _received(exchange: str, layer: int, m: int, *, back: bool = False) -> Value:
    """What comes out of an exchange; back: its gradient, which goes into the exchange's backward."""
    site = f"{exchange}_{layer}_{m}"
    return (f"{site}_backward", ("d_received",)) if back else (site, ("received",))


def _hidden(m: int, name: str, *index: int) -> Value:
    """A port of the gathered hidden states, or (d_shard, d_full) of the backward."""
    return f"hidden_{m}_backward" if name.startswith("d_") else f"hidden_{m}", (name, *index)


def _of_loss(m: int, part: int, name: str, *, back: bool = False) -> Value:
    """A port of the losses of a part of the tokens, or of their backward."""
    return f"loss_{m}_{part}_backward" if back else f"loss_{m}_{part}", (name,)
