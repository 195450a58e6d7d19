"""Context parallel: the positions of each text over all ranks, with whole models."""

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

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
        entry = {
            "heads": model.batch // microbatches * model.heads,
            "sequence": model.sequence,
            "head_dim": model.width // model.heads,
        }
        if model.exchange == "ring":
            own = 2 * model.batch // microbatches * self.positions(model, ranks) * model.width
            entry = {"elements": own, "round": True}
        forward = [
            Site(name=name, problem=PROBLEMS[model.exchange or "keys"], entry=entry)
            for m in range(microbatches)
            for layer in range(model.layers)
            for name in self._names(model, m, layer, ranks)
        ]
        backward = [
            replace(site, name=of_backward(site.name), direction=Direction.BACKWARD) for site in forward
        ]
        # the gradients first: their exchange begins before the rest of the backward pass
        return (means_as_they_come(model), *backward, *forward)

    @staticmethod
    def _names(model: "Model", m: int, layer: int, ranks: int) -> list[str]:
        """The sites of a layer and microbatch."""
        if model.exchange == "ring":
            return [hop_site(m, layer, hop) for hop in range(1, ranks)]
        return [(attention_site if model.exchange == "attention" else gather_site)(m, layer)]

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


PROBLEMS = {"keys": "ring_kv", "attention": "attention", "ring": "all_to_next"}
"""What is exchanged -> its Problem."""
