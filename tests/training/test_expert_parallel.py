"""A step with experts and head over the ranks, cut at its exchanges: its gradients are the whole model's."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.training.expert_parallel import ExpertParallelStep, Fed, from_own, to_own
from overlayccl_core.training.models.olmoe import Pieces
from tests.training.experts import STAYS
from tests.training.in_process import programs_of, worst_error

NARROW = {
    name: models.load(name).changed(width=16, expert_width=8, heads=2, layers=2, sequence=8, batch=2)
    for name in ("nano-moe", "nano-moe-v")
}
DEPLOYMENTS = {
    ranks: load(f"config/deployments/{name}.yaml") for name, ranks in (("local-2", 2), ("local", 4))
}
DROPS_A_ROW = '''
from overlayccl_core.program.language import Library, all_to_all, concat, pad, slice_axis, split

def drops_a_row(io, p):
    """The first row for each rank is not sent."""
    chunks = split(io.read("send"), p.world_size)
    io.write("received", all_to_all(concat([pad(slice_axis(x, 0, 1, p.chunk - 1), 0, 1, p.chunk) for x in chunks])))

LIBRARY = Library(developer="drops_a_row")
'''


def error(model: Model, deployment: Deployment, microbatches: int, **changed: Any) -> float:
    programs = programs_of(model, deployment, microbatches, {})
    return worst_error(model, deployment, microbatches, {**programs, **changed})


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("ranks", DEPLOYMENTS)
@pytest.mark.parametrize("name", NARROW)
def test_gradients_are_those_of_the_unsharded_model_however_it_is_split(
    name: str, ranks: int, microbatches: int
) -> None:
    assert error(NARROW[name], DEPLOYMENTS[ranks], microbatches) < 1e-12


def test_losses_may_be_taken_of_a_part_of_the_tokens_at_once() -> None:
    model = NARROW["nano-moe-v"].changed(loss_tokens=4)
    sites = programs_of(model, DEPLOYMENTS[2], 2, {})
    assert {"loss_1_0", "loss_1_3", "loss_1_3_backward"} < set(sites) and "loss_1_4" not in sites
    assert worst_error(model, DEPLOYMENTS[2], 2, sites) < 1e-12


def test_tokens_are_dropped_there_and_experts_differ_in_number() -> None:
    """So the tests above are of what they speak of."""
    model = NARROW["nano-moe-v"]
    shares = [Pieces(model, Pieces.full_parameters(model, 0), rank, 4) for rank in range(4)]
    assert [share.experts_here for share in shares] == [2, 2, 1, 1]
    whole = Pieces(model, Pieces.full_parameters(model, 0))
    batch = Pieces.batch(model, seed=0, step=0, replica=0)
    _, routes, _ = whole.routed(0, whole.attended(0, whole.enter(batch)), batch)
    assert 0 < routes.used.sum() < batch.texts[:, 1:].numel() * model.top_k


@pytest.mark.parametrize("site", ["dispatch_1_0_backward", "combine_0_0_backward"])
def test_a_backward_that_exchanges_nothing_is_seen(site: str) -> None:
    model = NARROW["nano-moe"]
    problem = programs_of(model, DEPLOYMENTS[2], 1, {})[site].problem
    assert error(model, DEPLOYMENTS[2], 1, **{site: trace_source(STAYS, "stays", problem)}) > 1e-2


@pytest.mark.parametrize("site", ["dispatch_1_0", "combine_1_0"])
def test_a_row_that_is_dropped_on_its_way_is_seen(site: str) -> None:
    model = NARROW["nano-moe"]
    problem = programs_of(model, DEPLOYMENTS[2], 1, {})[site].problem
    assert error(model, DEPLOYMENTS[2], 1, **{site: trace_source(DROPS_A_ROW, "drops_a_row", problem)}) > 1e-3


def test_gradients_of_experts_that_are_not_divided_by_the_ranks_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ExpertParallelStep, "_divide", lambda *_: {})
    assert error(NARROW["nano-moe"], DEPLOYMENTS[2], 1) == pytest.approx(1)


def test_other_tokens_dropped_than_by_the_whole_model_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that count a text's tokens from its end drop the first that chose an expert."""
    routed = Pieces.routed

    def from_the_end(pieces: Pieces, layer: int, x: torch.Tensor, batch: Fed) -> Any:
        if pieces.ranks == 1:
            return routed(pieces, layer, x, batch)
        turned = replace(batch, choices=tuple(one.flip(1) for one in batch.choices))
        h, routes, more = routed(pieces, layer, x.flip(1), turned)
        last, tokens = x.shape[1] - 1, routes.tokens
        back = torch.where(tokens < len(h), tokens + last - 2 * (tokens % x.shape[1]), tokens)
        return h.view_as(x).flip(1).flatten(0, 1), replace(routes, tokens=back), more

    monkeypatch.setattr(Pieces, "routed", from_the_end)
    model = NARROW["nano-moe-v"]
    assert error(model, DEPLOYMENTS[2], 1) > 1e-3
    assert error(model.changed(capacity_factor=9.0), DEPLOYMENTS[2], 1) < 1e-12  # nothing is dropped


def test_the_module_with_nothing_between_is_the_whole_model() -> None:
    model = NARROW["nano-moe-v"]
    whole = Pieces(model, Pieces.full_parameters(model, 0))
    batch = Pieces.feed(model, seed=0, step=0, rank=0, ranks=1)
    module = Pieces(model, Pieces.full_parameters(model, 0)).module()

    def loss(hidden: torch.Tensor, targets: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(hidden @ head.t(), targets)

    module.connect(dispatch=to_own, combine=from_own, loss=loss)
    torch.testing.assert_close(module(batch), whole.whole(batch))
    assert len(module.spread) == 2 * model.layers + 1
    assert len(module.spread) + len(module.replicated) == len(whole.parameters)
