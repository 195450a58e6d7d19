"""Which tokens go to which experts: by the experts' choice or the tokens', each text by itself.

Experts' choice (Zhou et al. 2022): each expert takes its capacity of a text's tokens, those with the best scores.
Tokens' choice (GShard, Lepikhin et al. 2021; Switch Transformer, Fedus et al. 2022): each token goes to its top
k experts. Of those that chose an expert, the first of the text find room, and the others are dropped. A token's
result is the sum of its experts' results, each times its score.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from overlayccl_core.training.segments import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The tokens of one rank that go to experts: E experts, each with R rows for them.

    Attributes:
        choice: What was chosen, a text's along the first axis: experts' choice int64[B, E, C], tokens of the text;
            tokens' choice int64[B, S, k], experts of the token.
        tokens: int64[E, R], the token of each row among the T of all texts; T in a row without one. Rows with a
            token come first.
        weights: float[E, R], the token's score for the expert; 0 in a row without a token.
        used: int64[E], the rows with a token.
    """

    choice: Tensor
    tokens: Tensor
    weights: Tensor
    used: Tensor


def experts_choice(scores: Tensor, capacity: int, choice: Tensor | None = None) -> Routes:
    """Let each expert choose: float[B, S, E] -> rows R = B * capacity. choice: what is chosen (None: the best)."""
    texts, sequence, experts = scores.shape
    if choice is None:
        choice = scores.detach().transpose(1, 2).topk(capacity).indices
    first = torch.arange(texts, device=scores.device)[:, None, None] * sequence
    tokens = (choice + first).transpose(0, 1).reshape(experts, texts * capacity)
    used = torch.full((experts,), texts * capacity, device=scores.device)
    return Routes(choice=choice, tokens=tokens, weights=_weights(scores, tokens), used=used)


def tokens_choice(scores: Tensor, top_k: int, capacity: int, choice: Tensor | None = None) -> Routes:
    """Let each token choose: float[B, S, E] -> rows R = B * capacity. choice: what is chosen (None: the best)."""
    texts, sequence, experts = scores.shape
    if choice is None:
        choice = scores.detach().topk(top_k).indices
    kept = _kept(_chosen(choice, experts), capacity).flatten(0, 1)
    rows = texts * capacity
    row = torch.where(
        kept > 0, kept.cumsum(0) - 1, rows
    ).t()  # of each token at an expert; one behind the last
    number = torch.arange(texts * sequence, device=scores.device).expand(experts, -1)
    tokens = torch.full((experts, rows + 1), texts * sequence, device=scores.device).scatter(1, row, number)
    tokens = tokens[:, :rows]
    return Routes(choice=choice, tokens=tokens, weights=_weights(scores, tokens), used=kept.sum(0))


def imbalance(scores: Tensor, choice: Tensor) -> Tensor:
    """Return the auxiliary loss of tokens' choice: 1 if experts are equally popular, more else; differentiable.

    Of each text E * sum over experts of (share of the choices) * (mean score), then the mean over texts: Fedus et
    al. 2022, equation 4, as a loss of each sequence (DeepSeek-V3, Liu et al. 2024). Dropped choices count, too.
    """
    experts = scores.shape[-1]
    share = _chosen(choice, experts).to(scores.dtype).mean(1) / choice.shape[-1]
    return experts * (share * scores.mean(1)).sum(-1).mean()


def packed(h: Tensor, routes: Routes) -> Tensor:
    """Put tokens into their rows: [T, D] -> [E * R, D], expert by expert, zeros in rows without one."""
    return _with_none(h).index_select(0, routes.tokens.flatten())


def summed(rows: Tensor, routes: Routes, tokens: int) -> Tensor:
    """Sum a token's rows, each times its weight: [E * R, D] -> [tokens, D]."""
    weighed = rows * routes.weights.reshape(-1, 1)
    total = rows.new_zeros(tokens + 1, rows.shape[1])
    return total.index_add(0, routes.tokens.flatten(), weighed)[:tokens]


def _chosen(choice: Tensor, experts: int) -> Tensor:
    """int64[B, S, E]: 1 where a token has chosen an expert."""
    nothing = choice.new_zeros(*choice.shape[:-1], experts)
    return nothing.scatter(2, choice, 1)


def _kept(chosen: Tensor, capacity: int) -> Tensor:
    """int64[B, S, E]: 1 where a token has chosen an expert and is among the first of its text."""
    return chosen * (chosen.cumsum(1) <= capacity)


def _weights(scores: Tensor, tokens: Tensor) -> Tensor:
    return _with_none(scores.flatten(0, 1)).t().gather(1, tokens)


def _with_none(x: Tensor) -> Tensor:
    """[T, D] -> [T + 1, D]: a row of zeros for no token."""
    return functional.pad(x, (0, 0, 0, 1))
