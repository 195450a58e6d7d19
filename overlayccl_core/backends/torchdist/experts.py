"""Mixtures of experts as people write them: how rows reach their experts and return, by functions of autograd.

`training/expert_parallel.py` has the model (Exchanging) and its Routes: T tokens of width D on each of N ranks, E
experts, R rows of an expert from one rank. Routes.tokens [E, R] has the token of each row, T where there is none;
Routes.weights [E, R] its weight; Routes.used [E] how many rows are used: the first ones. An exchange has

  dispatch(h, routes) -> rows, kept    from h [T, D] to the rows of this rank's experts [N * own * R, D], by source,
                                       then expert, zeros where none came; kept is for
  combine(y, routes, kept) -> sums     of each token's weighted rows, [T, D]
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives
from torch.nn.functional import pad

from overlayccl_core.backends.torchdist.data_parallel import FrameworkStep, averaging
from overlayccl_core.backends.torchdist.differentiable import (
    Sizes,
    all_gather,
    all_to_all,
    exchanged,
    gathered,
    scattered,
)
from overlayccl_core.backends.torchdist.groups import group_of
from overlayccl_core.backends.torchdist.losses import ENTROPIES, spread_loss

Routes = Any  # of training/, which imports backends
Shares = Sequence[int]
"""Experts of each rank."""


class _Exchange(Protocol):
    def dispatch(self, h: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, Any]: ...

    def combine(self, y: torch.Tensor, routes: Routes, kept: Any) -> torch.Tensor: ...


class PaddedRows:
    """The capacity of each expert is sent, used or not (GShard, Lepikhin et al. 2020; DeepSpeed-MoE; Tutel)."""

    def __init__(
        self, shares: Shares, send: Callable[[torch.Tensor, Sizes, Sizes], torch.Tensor] = exchanged
    ) -> None:
        self.shares, self.send = shares, send

    def dispatch(self, h: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, tuple[int, Sizes, Sizes]]:
        """Send all rows; no sizes are said where all ranks have as many experts."""
        rows = routes.tokens.shape[1]
        to, of = [rows * count for count in self.shares], len(self.shares) * [rows * _own(self.shares)]
        sizes: tuple[Sizes, Sizes] = (None, None) if len(set(self.shares)) == 1 else (to, of)
        return self.send(_taken(h, routes.tokens), *sizes), (len(h), *sizes)

    def combine(self, y: torch.Tensor, routes: Routes, kept: tuple[int, Sizes, Sizes]) -> torch.Tensor:
        """Send them back."""
        count, to, of = kept
        return _summed(self.send(y, of, to), routes.weights, routes.tokens, count)


def _functional(x: torch.Tensor, send: Sizes, receive: Sizes) -> torch.Tensor:
    """`exchanged` as torch has it."""
    world = dist.group.WORLD
    arrived = _functional_collectives.all_to_all_single_autograd(x.contiguous(), receive, send, world)
    return _functional_collectives.wait_tensor(arrived)


class TwoSteps:
    """As in PaddedRows; first within a node to the rank with the destination's place, then across nodes (Tutel).

    node: Ranks of a node (None: as launchers say).
    """

    def __init__(self, shares: Shares, node: int | None = None) -> None:
        self.shares = shares
        ranks, self.node = range(len(shares)), node or int(os.environ["LOCAL_WORLD_SIZE"])
        self.rank = dist.get_rank()
        firsts, places = ranks[:: self.node], ranks[: self.node]
        self.within = group_of(self.rank, [tuple(ranks[first : first + self.node]) for first in firsts])
        self.across = group_of(self.rank, [tuple(ranks[place :: self.node]) for place in places])

    def dispatch(self, h: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, int]:
        """Send all rows."""
        counts = len(self.shares) * [[routes.tokens.shape[1] * share for share in self.shares]]
        return self._exchanged(_taken(h, routes.tokens), counts), len(h)

    def combine(self, y: torch.Tensor, routes: Routes, kept: int) -> torch.Tensor:
        """Send them back."""
        counts = [len(self.shares) * [routes.tokens.shape[1] * share] for share in self.shares]
        return _summed(self._exchanged(y, counts), routes.weights, routes.tokens, kept)

    def _exchanged(self, x: torch.Tensor, counts: Sequence[Sequence[int]]) -> torch.Tensor:
        """counts: [N][N], rows from each rank to each."""
        first, place = self.rank - self.rank % self.node, self.rank % self.node
        mates, nodes = range(first, first + self.node), range(0, len(self.shares), self.node)
        parts = dict(enumerate(x.split(list(counts[self.rank]))))  # by destination
        rows = torch.cat([parts[node + to] for to in range(self.node) for node in nodes])
        to = [sum(counts[self.rank][node + mate - first] for node in nodes) for mate in mates]
        of = [sum(counts[mate][node + place] for node in nodes) for mate in mates]
        rows = exchanged(rows, to, of, self.within)
        pairs = [(mate, node) for mate in mates for node in nodes]
        arrived = rows.split([counts[mate][node + place] for mate, node in pairs])
        by_pair = dict(zip(pairs, arrived, strict=True))
        rows = torch.cat([by_pair[mate, node] for node in nodes for mate in mates])
        to = [sum(counts[mate][node + place] for mate in mates) for node in nodes]
        of = [sum(counts[node + mate - first][self.rank] for mate in mates) for node in nodes]
        return exchanged(rows, to, of, self.across)


class ExactRows:
    """Only used rows are sent, after their counts; the way back knows them (torchtitan, Megatron-LM).

    gathered: Every rank gets all counts, as in Megatron-LM. Otherwise those of its own experts, as in torchtitan.
    """

    def __init__(self, shares: Shares, *, gathered: bool) -> None:
        self.shares, self.gathered = shares, gathered

    def dispatch(self, h: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, tuple[Any, ...]]:
        """Send the used rows, and put those that arrive at their places in the capacity."""
        rows = routes.tokens.shape[1]
        coming = self._counts(routes.used)
        to = torch.stack([part.sum() for part in routes.used.split(self.shares)]).tolist()
        of = coming.sum(1).tolist()
        used, places = _used(routes.used, rows), _used(coming.flatten(), rows)
        tokens = routes.tokens.flatten().index_select(0, used)
        arrived = exchanged(h.index_select(0, tokens), to, of)
        padded = arrived.new_zeros(rows * coming.numel(), h.shape[1]).index_copy(0, places, arrived)
        return padded, (len(h), to, of, used, tokens, places)

    def combine(self, y: torch.Tensor, routes: Routes, kept: tuple[Any, ...]) -> torch.Tensor:
        """Send the used rows back."""
        count, to, of, used, tokens, places = kept
        rows = exchanged(y.index_select(0, places), of, to)
        return _summed(rows, routes.weights.flatten().index_select(0, used), tokens, count)

    def _counts(self, used: torch.Tensor) -> torch.Tensor:
        """int64[N, own]: the rows that come from each rank, by expert."""
        ranks, own = len(self.shares), _own(self.shares)
        if self.gathered:
            return _of_mine(all_gather(used[None]), self.shares)
        return all_to_all(used, self.shares, ranks * [own]).view(ranks, own)


class TokensGathered:
    """All tokens are gathered, with their routes; each rank takes rows for its experts; sums are reduce-scattered.

    So vLLM exchanges, unless told otherwise (allgather_reducescatter). joined: One call gathers all of it.
    """

    def __init__(self, shares: Shares, *, joined: bool) -> None:
        self.shares, self.joined = shares, joined

    def dispatch(self, h: torch.Tensor, routes: Routes) -> tuple[torch.Tensor, tuple[Any, ...]]:
        """Gather, and take rows."""
        ranks, (count, width) = len(self.shares), h.shape
        if self.joined:
            numbers = routes.tokens.to(torch.int32).view(h.dtype)  # their bits: nobody computes with them
            parts = [h, routes.weights, numbers]
            joined = gathered(torch.cat([part.flatten() for part in parts])[None])
            split = joined.split([part.numel() for part in parts], 1)
            everybody, weights, numbers = split
            tokens = numbers.view(torch.int32).to(torch.int64)
        else:
            everybody, weights = gathered(h), gathered(routes.weights)
            tokens = all_gather(routes.tokens)
        weights, tokens = (
            _of_mine(x.reshape(ranks, *routes.tokens.shape), self.shares) for x in (weights, tokens)
        )
        first = count * torch.arange(ranks, device=h.device).view(-1, 1, 1)
        tokens = torch.where(tokens == count, ranks * count, tokens + first)
        return _taken(everybody.reshape(-1, width), tokens), (ranks * count, weights, tokens)

    def combine(self, y: torch.Tensor, _routes: Routes, kept: tuple[Any, ...]) -> torch.Tensor:
        """Add the rows of each token, here and then over ranks."""
        count, weights, tokens = kept
        return scattered(_summed(y, weights, tokens, count))


def _taken(h: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the row of each token, zeros where there is none: [T, D], int64[...] from 0 to T -> [..., D]."""
    return pad(h, (0, 0, 0, 1)).index_select(0, tokens.flatten())


def _summed(rows: torch.Tensor, weights: torch.Tensor, tokens: torch.Tensor, count: int) -> torch.Tensor:
    """Return the sum of each token's weighted rows, [count, D]; `tokens` as in `_taken`."""
    sums = rows.new_zeros(count + 1, rows.shape[1])
    return sums.index_add(0, tokens.flatten(), rows * weights.reshape(-1, 1))[:-1]


def _used(counts: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the places of the first counts[i] rows in each block of `rows`: int64[I] -> int64[sum(counts)]."""
    return (torch.arange(rows, device=counts.device) < counts[:, None]).flatten().nonzero().flatten()


def _own(shares: Shares) -> int:
    """The number of this rank's experts."""
    rank: int = dist.get_rank()
    return shares[rank]


def _of_mine(x: torch.Tensor, shares: Shares) -> torch.Tensor:
    """Return this rank's experts: [N, E, ...] -> [N, own, ...]."""
    return x.narrow(1, sum(shares[: dist.get_rank()]), _own(shares))


EXCHANGES: dict[str, Callable[[Shares], _Exchange]] = {
    "padded": PaddedRows,
    "functional": partial(PaddedRows, send=_functional),
    "two_steps": TwoSteps,
    "exact": partial(ExactRows, gathered=False),
    "exact_gathered": partial(ExactRows, gathered=True),
    "gathered": partial(TokensGathered, joined=False),
    "gathered_joined": partial(TokensGathered, joined=True),
}
"""By the setting of an arm."""


def expert_parallel(
    model: torch.nn.Module, device: str, *, exchange: str, entropy: str, ddp: bool = False
) -> FrameworkStep:
    """Step with experts and rows of the head over all ranks; the gradients of all else are averaged.

    ddp: As in `averaging`.
    """
    way = EXCHANGES[exchange](model.shares)
    loss = partial(spread_loss, ENTROPIES[entropy])
    model.connect(dispatch=way.dispatch, combine=way.combine, loss=loss)
    averaged = averaging(model, device, model.replicated, ddp=ddp)

    def step(batches: Sequence[Any]) -> torch.Tensor | None:
        losses = averaged(batches)
        for parameter in model.spread:
            parameter.grad /= dist.get_world_size()
        return losses

    return step
