"""What ranks run in the test of deployed cross-entropies: a sharded output embedding against the whole one."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from tests.emit.scenarios_worker import run_scenarios

WIDTH = 8


def worst(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest error of an element."""
    return (got - want).abs().max().item()


def tried(rank: Rank, path: Path, case: str, tokens: int, vocabulary: int) -> dict[str, Any]:
    """Errors of losses, mean and gradients against functional.cross_entropy of the whole; what it refuses."""
    connected = load_module(path, path.stem).connect(case)
    random = torch.Generator().manual_seed(1)
    hidden = torch.randn(tokens, WIDTH, generator=random)
    words = 3 * torch.randn(vocabulary, WIDTH, generator=random)
    targets = torch.randint(0, vocabulary, (tokens,), generator=random)
    weights = torch.randn(tokens, generator=random)
    h, w = (x.clone().requires_grad_() for x in (hidden, words))
    losses = functional.cross_entropy(functional.linear(h, w), targets, reduction="none")
    (losses.mean() + (weights * losses).sum()).backward()

    part = slice(rank.index * vocabulary // rank.ranks, (rank.index + 1) * vocabulary // rank.ranks)
    mine, my_words = hidden.clone().requires_grad_(), words[part].clone().requires_grad_()
    each, mean = connected.group(0)([functional.linear(mine, my_words), targets.view(-1, 2)])
    (mean.squeeze() + (weights * each.view(-1)).sum()).backward()
    dist.all_reduce(mine.grad)
    with torch.no_grad():
        alone = connected.group(0)([functional.linear(mine, my_words), targets])
    try:
        connected.group(0)([functional.linear(mine, my_words), targets + vocabulary])
        refused = ""
    except ValueError as error:
        refused = str(error)
    os.environ["OVERLAYCCL_CHECK"] = "1"
    checked = load_module(path, path.stem).connect(case)
    del os.environ["OVERLAYCCL_CHECK"]
    try:
        checked.group(0)([1000 * functional.linear(mine, my_words), targets])
        wide = ""
    except ValueError as error:
        wide = str(error)
    checked.group(0)([functional.linear(mine, my_words), targets])
    other = targets.flip(0) if rank.index == 1 else targets

    def answered() -> None:
        events, logits = checked.forward(), functional.linear(mine, my_words).detach().view(-1)
        event = next(events)
        while True:
            event = events.send(other if event.port == ("targets",) else logits)

    unlike = []
    for call in (lambda: checked.group(0)([functional.linear(mine, my_words), other]), answered):
        try:
            call()
            unlike.append("")
        except RuntimeError as error:
            unlike.append(str(error))
    return {
        "losses": worst(each.detach().view(-1), losses.detach()),
        "mean": worst(mean.detach(), losses.mean().detach()),
        "hidden": worst(mine.grad, h.grad),
        "words": worst(my_words.grad, w.grad[part]),
        "shapes": [list(x.shape) for x in (each, mean, *alone)],
        "alone": worst(alone[0], each.detach().view(-1)),
        "refused": refused,
        "wide": wide,
        "unlike": unlike,
        "selftest": [line["error"] for line in connected.selftest()],
    }


def main(folder: Path) -> None:
    run_scenarios(folder, tried)
