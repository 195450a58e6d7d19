"""What ranks run in the test of deployed attention: pieces of a sequence against the whole one."""

from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from tests.emit.scenarios_worker import run_scenarios


def tried(rank: Rank, path: Path, case: str, heads: int, sequence: int, width: int) -> dict[str, Any]:
    """Errors of the result and of the gradients, and what a changed result is told."""
    connected = load_module(path, path.stem).connect(case)
    random = torch.Generator().manual_seed(1)
    q, k, v, weights = (torch.randn(heads, sequence, width, generator=random) for _ in range(4))
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = functional.scaled_dot_product_attention(*whole, is_causal=True)
    (weights * wanted).sum().backward()

    positions = sequence // rank.ranks
    piece = slice(rank.index * positions, (rank.index + 1) * positions)
    mine = [x[:, piece].contiguous().requires_grad_() for x in (q, k, v)]
    group = connected.group(0)
    [out] = group(mine)
    (weights[:, piece] * out).sum().backward()
    errors = {"out": (out - wanted[:, piece]).abs().max().item()}
    for name, x, y in zip("qkv", mine, whole, strict=True):
        errors[name] = (x.grad - y.grad[:, piece]).abs().max().item()
    [out] = group(mine)
    out += 1  # the backward reads it
    try:
        out.sum().backward()
        changed = ""
    except RuntimeError as error:
        changed = str(error)
    return {
        "errors": errors,
        "kept": [port[0] for port in group.kept],
        "changed": changed,
        "selftest": [line["error"] for line in connected.selftest()],
    }


def main(folder: Path) -> None:
    run_scenarios(folder, tried)
