"""The ranks of test_by_hand: what practitioners write, against the same without ranks."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from overlayccl_core.backends.torchdist import context
from overlayccl_core.backends.torchdist.experts import EXCHANGES, TwoSteps
from overlayccl_core.backends.torchdist.losses import ENTROPIES, spread_loss
from overlayccl_core.backends.torchdist.rank import Rank, run_rank
from overlayccl_core.launching.status import Phase
from overlayccl_core.training import transformer

TOKENS, WIDTH, ROWS, WORDS = 5, 3, 4, 8  # of a rank; rows of an expert from a rank
HEADS = 2  # of a rank, where ranks have heads
SHARES = {"even": (2, 2, 2, 2), "uneven": (2, 2, 1, 1)}
Tensors = Mapping[str, torch.Tensor]
"""A value and its gradients, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Those of a rank, as in training/expert_parallel.py."""

    tokens: torch.Tensor
    weights: torch.Tensor
    used: torch.Tensor


def routes_of(experts: int, *, full: bool, random: torch.Generator) -> Routes:
    """Some experts have no row at all, unless all are full."""
    used = torch.full((experts,), ROWS) if full else torch.randint(0, ROWS + 1, (experts,), generator=random)
    tokens = torch.randint(0, TOKENS, (experts, ROWS), generator=random)
    unused = torch.arange(ROWS) >= used[:, None]
    weights = torch.rand(experts, ROWS, generator=random).masked_fill(unused, 0)
    return Routes(tokens=tokens.masked_fill(unused, TOKENS), weights=weights, used=used)


def experts_apart(exchange: str, shares: tuple[int, ...], full: bool, rank: Rank) -> tuple[Tensors, Tensors]:
    """Experts that multiply by a matrix: on this rank, and what it would have had alone."""
    random = torch.Generator().manual_seed(1)
    all_h, seen = (torch.randn(rank.ranks, TOKENS, WIDTH, generator=random) for _ in range(2))
    matrices = torch.randn(sum(shares), WIDTH, WIDTH, generator=random)
    routes = [routes_of(sum(shares), full=full, random=random) for _ in range(rank.ranks)]

    whole_h, whole = all_h.clone().requires_grad_(), matrices.clone().requires_grad_()
    weights = [one.weights.clone().requires_grad_() for one in routes]
    sums = []
    for source, one in enumerate(routes):
        total = torch.zeros(TOKENS, WIDTH)
        for e, used in enumerate(one.used.tolist()):
            for row in range(used):
                token = int(one.tokens[e, row])
                here = torch.zeros(TOKENS, 1).index_fill(0, torch.tensor(token), 1.0)
                total = total + here * (weights[source][e, row] * (whole_h[source, token] @ whole[e]))
        sums.append(total)
    (torch.stack(sums) * seen).sum().backward()
    first = sum(shares[: rank.index])
    own = slice(first, first + shares[rank.index])
    want = {"sums": sums[rank.index], "h": whole_h.grad[rank.index], "matrices": whole.grad[own]}
    mine_used = routes[rank.index].tokens < TOKENS  # the weight of no row has no gradient that matters
    want["weights"] = weights[rank.index].grad * mine_used

    h, mine = all_h[rank.index].clone().requires_grad_(), matrices[own].clone().requires_grad_()
    weight = routes[rank.index].weights.clone().requires_grad_()
    route = Routes(tokens=routes[rank.index].tokens, weights=weight, used=routes[rank.index].used)
    way = TwoSteps(shares, node=2) if exchange == "two_steps" else EXCHANGES[exchange](shares)
    arrived, kept = way.dispatch(h, route)
    y = torch.einsum("serd,edc->serc", arrived.view(rank.ranks, len(mine), ROWS, WIDTH), mine)
    got = way.combine(y.reshape(-1, WIDTH), route, kept)
    (got * seen[rank.index]).sum().backward()
    return {"sums": got, "h": h.grad, "matrices": mine.grad, "weights": weight.grad * mine_used}, want


def loss(entropy: str, rank: Rank) -> tuple[Tensors, Tensors]:
    """The head of a model; logits up to a size at which exp overflows."""
    random = torch.Generator().manual_seed(2)
    hidden = 20 * torch.randn(rank.ranks * TOKENS, WIDTH, generator=random)
    words = 5 * torch.randn(rank.ranks * WORDS, WIDTH, generator=random)
    targets = torch.randint(0, len(words), (len(hidden),), generator=random)
    all_hidden, head = hidden.clone().requires_grad_(), words.clone().requires_grad_()
    mean = functional.cross_entropy(functional.linear(all_hidden, head), targets)
    (3 * rank.ranks * mean).backward()
    tokens = slice(rank.index * TOKENS, (rank.index + 1) * TOKENS)
    own = slice(rank.index * WORDS, (rank.index + 1) * WORDS)
    want = {"loss": mean, "hidden": all_hidden.grad[tokens], "head": head.grad[own]}

    mine, my_words = hidden[tokens].clone().requires_grad_(), words[own].clone().requires_grad_()
    got = spread_loss(ENTROPIES[entropy], mine, targets, my_words)
    (3 * got).backward()
    return {"loss": got, "hidden": mine.grad, "head": my_words.grad}, want


def positions(exchange: str, rank: Rank) -> tuple[Tensors, Tensors]:
    """Attention of two texts, each rank with some positions of both and with weights of its own on the result."""
    random = torch.Generator().manual_seed(3)
    shape = (2, HEADS * rank.ranks, rank.ranks * TOKENS, WIDTH)
    whole = torch.randn(3, *shape, generator=random).requires_grad_()
    seen = torch.randn(shape, generator=random)
    want = transformer.attended(*whole)
    (want * seen).sum().backward()

    part = slice(rank.index * TOKENS, (rank.index + 1) * TOKENS)
    own = whole[..., part, :].detach().clone().requires_grad_()
    attend = partial(transformer.attended, first=rank.index * TOKENS)
    got = context.EXCHANGES[exchange](attend, *own)
    (got * seen[..., part, :]).sum().backward()
    names = ("queries", "keys", "values")
    return (
        {"mixed": got, **dict(zip(names, own.grad, strict=True))},
        {"mixed": want[..., part, :], **dict(zip(names, whole.grad[..., part, :], strict=True))},
    )


def scenarios() -> dict[str, Callable[[Rank], tuple[Tensors, Tensors]]]:
    """By name."""
    exchanges = {
        f"{exchange} {name}{' full' if full else ''}": partial(experts_apart, exchange, shares, full)
        for exchange in EXCHANGES
        for name, shares in SHARES.items()
        for full in (False, True)
    }
    losses = {f"loss {entropy}": partial(loss, entropy) for entropy in ENTROPIES}
    contexts = {f"positions {exchange}": partial(positions, exchange) for exchange in context.EXCHANGES}
    return {**exchanges, **losses, **contexts}


def main(folder: Path) -> None:
    def work(rank: Rank) -> None:
        rank.status.enter(Phase.CHECKING)
        errors = {}
        for index, (name, scenario) in enumerate(scenarios().items()):
            rank.status.work_on(index)
            got, want = scenario(rank)
            errors[name] = {
                what: float((got[what] - value).norm() / value.norm().clamp(min=1e-9))
                for what, value in want.items()
            }
        (folder / f"errors-{rank.index}.json").write_text(json.dumps(errors))

    run_rank(folder, "gloo", work)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
