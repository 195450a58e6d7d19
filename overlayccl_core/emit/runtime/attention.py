"""Attention, with torch alone: what program/attention.py means, of flat values.

Plain products, so that every device and compiler has them. `ahead`, how far the first query stands behind the first
key, is an integer or, where all ranks share a compiled graph, a tensor: then no key can be left out.
"""

from __future__ import annotations

import torch


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ahead: int | torch.Tensor, heads: int, width: int
) -> torch.Tensor:
    """Return [out, lse]. A query that sees nothing: 0, half the lowest number."""
    q, k, v = (_by_head(x, heads, width) for x in (q, k, v))
    k, v = (_seen(x, q.shape[1], ahead) for x in (k, v))
    lowest = torch.finfo(q.dtype).min / 2
    if not k.shape[1]:
        return torch.cat([torch.zeros_like(q).view(-1), q.new_full((q.shape[0] * q.shape[1],), lowest)])
    weights = _hide(_scores(q, k), ahead, float("-inf"))
    top = weights.amax(2, keepdim=True).clamp_(min=lowest)
    weights.sub_(top).exp_()
    total = weights.sum(2, keepdim=True).clamp_(min=1)  # the highest score weighs 1; 0 if there is none
    out = torch.bmm(weights, v).div_(total)
    del weights
    return torch.cat([out.view(-1), top.add_(total.log_()).view(-1)])


def combine(
    out: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor, width: int
) -> torch.Tensor:
    """Return [out, lse] for the keys of both."""
    out, other = out.view(-1, width), other.view(-1, width)
    lse, other_lse = lse.view(-1, 1), other_lse.view(-1, 1)
    top = torch.maximum(lse, other_lse)
    mine, others = (lse - top).exp_(), (other_lse - top).exp_()
    total = mine + others
    joined = (out * mine).addcmul_(other, others).div_(total)
    return torch.cat([joined.view(-1), top.add_(total.log_()).view(-1)])


def attend_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    ahead: int | torch.Tensor,
    heads: int,
    width: int,
) -> torch.Tensor:
    """Return [d_q, d_k, d_v] of these keys; out and lse are of all keys."""
    size = k.numel()
    q, k, v, out, d_out = (_by_head(x, heads, width) for x in (q, k, v, out, d_out))
    k, v = (_seen(x, q.shape[1], ahead) for x in (k, v))
    if not k.shape[1]:
        return q.new_zeros(q.numel() + 2 * size)
    weights = _scores(q, k).sub_(lse.view(heads, -1, 1)).exp_()
    _hide(weights, ahead, 0)
    d_v = torch.bmm(weights.transpose(1, 2), d_out)
    d_scores = torch.bmm(d_out, v.transpose(1, 2))
    d_scores.sub_((out * d_out).sum(2, keepdim=True)).mul_(weights).mul_(width**-0.5)
    del weights
    d_q, d_k = torch.bmm(d_scores, k), torch.bmm(d_scores.transpose(1, 2), q)
    del d_scores
    unseen = size // (heads * width) - k.shape[1]
    if unseen:
        d_k, d_v = (torch.nn.functional.pad(x, (0, 0, 0, unseen)) for x in (d_k, d_v))
    return torch.cat([x.reshape(-1) for x in (d_q, d_k, d_v)])


def _by_head(x: torch.Tensor, heads: int, width: int) -> torch.Tensor:
    return x.view(heads, -1, width)


def _seen(keys: torch.Tensor, queries: int, ahead: int | torch.Tensor) -> torch.Tensor:
    """Return the keys that some query sees."""
    return keys[:, : max(0, queries + ahead)] if isinstance(ahead, int) else keys


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.bmm(q, k.transpose(1, 2)).mul_(q.shape[2] ** -0.5)


def _hide(scores: torch.Tensor, ahead: int | torch.Tensor, value: float) -> torch.Tensor:
    """Put a value where a key is later than the query."""
    queries, keys = scores.shape[1:]
    if isinstance(ahead, int) and ahead >= keys - 1:
        return scores
    last = torch.arange(queries, device=scores.device).view(-1, 1) + ahead
    return scores.masked_fill_(torch.arange(keys, device=scores.device) > last, value)
