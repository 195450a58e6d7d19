"""Context parallel: the positions of each text over all ranks, with whole models."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework
from overlayccl_core.program.problem import Direction
from overlayccl_core.workloads.spreads.spread import Spread, means_as_they_come

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model


class ContextSpread(Spread):
    """An exchange for attention, or N - 1, for each layer and microbatch, in both directions; means of gradients.

    All ranks have the same texts, and each computes some positions of them: `training/context_parallel.py`.
    """

    framework = Framework.CONTEXT
    has_whole_models = True

    def check(self, model: "Model", ranks: int) -> None:
        if model.sequence % ranks:
            raise ValueError(
                "ranks must divide the sequence of a context-parallel model, as each has as many positions (got "
                f"{ranks} and {model.sequence}): leave the model out, or give it a file with a sequence of "
                f"{ceil(model.sequence / ranks) * ranks}"
            )

    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        exchange = EXCHANGES[model.exchange or "keys"]
        entry = exchange.entry(model, model.batch // microbatches, ranks)
        forward = [
            Site(name=name, problem=exchange.problem, entry=entry)
            for m in range(microbatches)
            for layer in range(model.layers)
            for name in exchange.names(m, layer, ranks)
        ]
        backward = [
            replace(site, name=of_backward(site.name), direction=Direction.BACKWARD) for site in forward
        ]
        # the gradients first: their exchange begins before the rest of the backward pass
        return (means_as_they_come(model), *backward, *forward)

    def replicas(self, ranks: int) -> tuple[int, ...]:
        return (0,) * ranks

    def positions(self, model: "Model", ranks: int) -> int:
        return model.sequence // ranks


def gather_site(m: int, layer: int) -> str:
    """Return the site of a layer's keys and values, of microbatch m."""
    return f"gather_{layer}_{m}"


def attention_site(m: int, layer: int) -> str:
    """Return the site of a layer's attention, of microbatch m."""
    return f"attention_{layer}_{m}"


def hop_site(m: int, layer: int, hop: int) -> str:
    """Return the site of a hop, of 1 to N - 1, of a layer's keys and values round the ranks, of microbatch m."""
    return f"hop{hop}_{layer}_{m}"


def of_backward(site: str) -> str:
    """Return the site of the gradients of what another site gives."""
    return f"{site}_backward"


@dataclass(frozen=True, slots=True)
class Exchange:
    """What ranks exchange for attention.

    Attributes:
        entry: The entry of its sites, of so many texts on so many ranks.
        names: Its sites, of a microbatch and a layer, on so many ranks.
    """

    problem: str
    entry: Callable[["Model", int, int], dict[str, Any]]
    names: Callable[[int, int, int], list[str]]


def _of_attention(model: "Model", texts: int, _ranks: int) -> dict[str, Any]:
    """All heads of all texts."""
    heads, head_dim = texts * model.heads, model.width // model.heads
    return {"heads": heads, "sequence": model.sequence, "head_dim": head_dim}


def _of_a_rank(model: "Model", texts: int, ranks: int) -> dict[str, Any]:
    """The keys and values of one rank's positions, in a flat buffer that goes round."""
    return {"elements": 2 * texts * model.spread.positions(model, ranks) * model.width, "round": True}


EXCHANGES = {
    "keys": Exchange("ring_kv", _of_attention, lambda m, layer, _: [gather_site(m, layer)]),
    "attention": Exchange("attention", _of_attention, lambda m, layer, _: [attention_site(m, layer)]),
    "ring": Exchange(
        "all_to_next",
        _of_a_rank,
        lambda m, layer, ranks: [hop_site(m, layer, hop) for hop in range(1, ranks)],
    ),
}
"""By the model's field `exchange`."""
