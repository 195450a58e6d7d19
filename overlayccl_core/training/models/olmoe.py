"""A transformer with a mixture of experts like OLMoE (Muennighoff et al. 2024), as pieces between exchanges.

It trains on bytes or tokens of text. A layer has rotary attention and, behind an RMSNorm and a router, SwiGLU
experts; each adds its result to the residual stream. A rank has its experts and its rows of the head; norms,
attention, routers and embedding are replicated. `workloads/olmoe.py` says what ranks exchange.
"""

from collections.abc import Mapping, Sequence

import torch
from torch.nn import functional

from overlayccl_core.training import pieces, text, transformer
from overlayccl_core.training.expert_parallel import (
    Exchanging,
    ExpertParallelStep,
    Fed,
    from_own,
    through,
    to_own,
)
from overlayccl_core.training.pieces import TrainingStep
from overlayccl_core.training.routing import Routes, experts_choice, imbalance, tokens_choice
from overlayccl_core.training.segments import Tensor
from overlayccl_core.workloads.olmoe import Model, Routing, experts_of, is_spread


class Pieces(pieces.Pieces[Model]):
    """One rank's parameters and the functions between exchanges."""

    def __init__(
        self, model: Model, full: Mapping[str, Tensor], rank: int = 0, ranks: int = 1, device: str = "cpu"
    ) -> None:
        super().__init__(model, full, rank, ranks, device)
        self.layers = model.layers
        self.shares: Sequence[int] = tuple(map(len, experts_of(model.experts, ranks)))
        self.experts_here = self.shares[rank]

    @staticmethod
    def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
        """Return name -> initial value, the same on every rank."""
        return transformer.initial(model.parameter_sizes(), seed, unscaled="embedding")

    @staticmethod
    def shard(model: Model, name: str, full: Tensor, rank: int, ranks: int) -> Tensor:
        """Return a rank's experts, or its rows of the head; all of another parameter."""
        if not is_spread(name):
            return full
        if name == "head":
            return full.chunk(ranks)[rank]
        mine = experts_of(model.experts, ranks)[rank]
        return full[mine.start : mine.stop]

    @staticmethod
    def batch(model: Model, *, seed: int, step: int, replica: int) -> Fed:
        """Draw texts; ranks are fed more (`feed`)."""
        return Fed(texts=text.batch_of(model, seed=seed, step=step, replica=replica))

    @classmethod
    def feed(cls, model: Model, *, seed: int, step: int, rank: int, ranks: int) -> Fed:
        """Draw a rank's texts, and the targets of all ranks."""
        texts = [text.batch_of(model, seed=seed, step=step, replica=r) for r in model.replicas(ranks)]
        return Fed(texts=texts[rank], targets=torch.stack([one[:, 1:] for one in texts], 1))

    @staticmethod
    def on(device: str, batch: Fed) -> Fed:
        """Move a batch to a device."""
        return batch.on(device)

    @staticmethod
    def split(batch: Fed, microbatches: int) -> Sequence[Fed]:
        """Cut a batch by its texts."""
        return batch.split(microbatches)

    def settled(self, batch: Fed) -> Fed:
        """Return the batch with the routing of this whole model."""
        with torch.no_grad():
            _, routes, _ = through(self, batch, to_own, from_own)
        return batch.routed(routes)

    def whole(self, batch: Fed) -> Tensor:
        """Return the mean loss, on a rank with all experts."""
        hidden, _, others = through(self, batch, to_own, from_own)
        return sum(others, functional.cross_entropy(self.logits(hidden), batch.texts[:, 1:].flatten()))

    def step(self, batches: Sequence[Fed], *, early: bool) -> TrainingStep:
        """Return a step cut at its exchanges."""
        return ExpertParallelStep(self, batches)

    def module(self) -> Exchanging:
        """Return this rank's part as a torch module, with what ranks do together left out."""
        return Exchanging(self)

    def is_spread(self, name: str) -> bool:
        """Return whether a parameter lies over the ranks."""
        return is_spread(name)

    def stretch_of(self, name: str) -> int:
        """Return the layer that uses a parameter, the last of several: one more for the last norm."""
        kind, *where = name.split(".")
        return {"embedding": 0, "norm": self.layers}.get(kind) or int(where[0] if where else 0)

    def losses(self, batch: Fed) -> int:
        """Return into how many parts the tokens of all ranks are cut for their losses."""
        tokens = len(batch.everyones)
        return tokens // (self.model.loss_tokens or tokens)

    def room(self, batch: Fed) -> int:
        """Return the rows of an expert for tokens of one rank."""
        return len(batch.texts) * self.model.capacity

    def enter(self, batch: Fed) -> Tensor:
        """Embed all tokens but the last, without a next one: int64[B, S + 1] -> float32[B, S, D]."""
        return functional.embedding(batch.texts[:, :-1], self.parameters["embedding"])

    def attended(self, layer: int, x: Tensor) -> Tensor:
        """Add a layer's attention: [B, S, D] -> [B, S, D]."""
        of = self._of(layer)
        joined = functional.linear(self._normed(x, of["attention_norm"]), of["query_key_value"])
        return x + functional.linear(transformer.attention(joined, self.model.heads), of["output"])

    def routed(self, layer: int, x: Tensor, batch: Fed) -> tuple[Tensor, Routes, tuple[Tensor, ...]]:
        """Return the input of a layer's experts [T, D], its routes, and the router's loss of tokens' choice."""
        model, of = self.model, self._of(layer)
        h = self._normed(x, of["experts_norm"])
        scores = functional.softmax(functional.linear(h, of["router"]), -1)
        choice = batch.choices[layer] if batch.choices else None
        if model.routing is Routing.EXPERTS:
            return h.flatten(0, 1), experts_choice(scores, model.capacity, choice), ()
        routes = tokens_choice(scores, model.top_k, model.capacity, choice)
        return h.flatten(0, 1), routes, (model.balance * imbalance(scores, routes.choice),)

    def expert(self, layer: int, rows: Tensor) -> Tensor:
        """Run the experts that are here: [sources * experts * R, D] -> the same shape."""
        of = self._of(layer)
        x = rows.unflatten(0, (self.ranks, self.experts_here, -1)).transpose(0, 1)  # by expert, then source
        gate, up = torch.bmm(x.flatten(1, 2), of["gate_up"].transpose(1, 2)).chunk(2, -1)
        y = torch.bmm(functional.silu(gate) * up, of["down"].transpose(1, 2))
        return y.unflatten(1, (self.ranks, -1)).transpose(0, 1).reshape(rows.shape)

    def hidden(self, x: Tensor) -> Tensor:
        """Apply the last norm: [B, S, D] -> [T, D]."""
        return self._normed(x, self.parameters["norm"]).flatten(0, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of this rank's words: [n, D] -> [n, V / N]."""
        return functional.linear(hidden, self.parameters["head"])

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.model.width,), weight)

    def _of(self, layer: int) -> Mapping[str, Tensor]:
        """kind -> parameter of a layer."""
        kinds = ("attention_norm", "query_key_value", "output", "experts_norm", "router", "gate_up", "down")
        return {kind: self.parameters[f"blocks.{layer}.{kind}"] for kind in kinds}
