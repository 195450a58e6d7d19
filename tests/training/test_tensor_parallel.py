"""A tensor-parallel step cut at its sums: the ranks' segments run side by side, without a library between them."""

import gc
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import Model
from overlayccl_core.program.library import Role, read_library
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.step.segment import Name
from overlayccl_core.training.arm import unsharded_gradients
from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.tensor_parallel import TensorParallelStep
from tests.training.in_process import programs_of, worst_error

RANKS = 2
MODEL = models.load("nano")
DEPLOYMENT = load("config/deployments/local.yaml")
NARROW = {
    problem: models.load(name).changed(
        width=16, hidden=32, heads=4, layers=2, sequence=8, batch=4, microbatches=(1, 4), loss_microbatches=1
    )
    for problem, name in (("tp_mlp", "nano"), ("layer_block_ar", "nano-parallel"))
}
KNOWN_WAYS = [
    (problem, name)
    for problem in NARROW
    for name, role in read_library(catalog.library_source(problem)).strategies
    if role is not Role.DERIVED and name != "hierarchical"  # of two tiers
]
DROPS_A_PART = '''
from overlayccl_core.program.language import Library, add, all_reduce

def drops_a_part(io, p):
    """What the MLP adds on one rank is lost: each rank has its own for the sum."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = [io.read("partial", m, layer, part) for part in range(p.parts)]
            added = add(all_reduce(attention, "sum"), mlp)
            io.write("total", m, layer, all_reduce(add(attention, mlp), "sum") if layer else added)

LIBRARY = Library(developer="drops_a_part")
'''


def errors(model: Model, **strategies: str) -> list[float]:
    """Worst of a gradient, at each count of microbatches."""
    return [
        worst_error(model, DEPLOYMENT, m, programs_of(model, DEPLOYMENT, m, strategies))
        for m in model.microbatches
    ]


@pytest.mark.parametrize(("problem", "way"), KNOWN_WAYS)
def test_gradients_are_those_of_the_unsharded_model_however_it_is_split(problem: str, way: str) -> None:
    model = NARROW[problem]
    assert {site.problem for site in models.sites_of(model, 1, 2)} == {problem}
    assert max(errors(model, **{problem: way})) < 1e-5


@pytest.mark.parametrize("problem", NARROW)
def test_gradients_of_weights_that_are_left_over_are_the_same(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a Program that lets nobody work meanwhile they are computed before the next segment."""
    monkeypatch.setattr(Pieces, "leaves_work", True)
    assert max(errors(NARROW[problem])) < 1e-5


@pytest.mark.parametrize("site", ["entry", "exit"])
def test_a_part_of_a_parallel_block_that_is_not_summed_is_seen_in_both_passes(site: str) -> None:
    model = NARROW["layer_block_ar"]
    programs = programs_of(model, DEPLOYMENT, 4, {})
    programs[site] = trace_source(DROPS_A_PART, "drops_a_part", programs[site].problem)
    assert worst_error(model, DEPLOYMENT, 4, programs) > 1e-2


def test_a_parallel_block_adds_to_what_both_of_its_parts_read() -> None:
    model = models.load("nano-parallel").changed(layers=1)
    pieces = Pieces(model, Pieces.full_parameters(model, seed=0))
    x = torch.randn(1, 4, model.width)
    with torch.no_grad():
        h = pieces.normed(0, x)
        want = x + pieces.partial(0, h, 0) + pieces.partial(0, h, 1)
        torch.testing.assert_close(pieces.stages()[1].run(x, None), want)
    assert [name for name in pieces.parameters if "norm" in name] == ["blocks.0.norm", "norm"]


def test_the_shares_of_two_ranks_have_the_gradients_of_the_whole_and_no_partial_sum_is_overwritten() -> None:
    random = torch.Generator().manual_seed(1)
    tokens = [torch.randint(MODEL.vocabulary, (1, 9), generator=random) for _ in range(2)]
    full = Pieces.full_parameters(MODEL, seed=0)
    shares = [Pieces(MODEL, full, rank, RANKS) for rank in range(RANKS)]
    steps = [TensorParallelStep(share, tokens) for share in shares]
    segments = [{s.name: s for s in step.segments()} for step in steps]
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def sums(name: Name, total: Any = None) -> Any:
        """The sum over ranks of what a segment gives."""
        given = [mine[name].work(dict.fromkeys(mine[name].needs, total)) for mine in segments]
        parts = [part for one in given for part in one.values()]
        seen.extend((part, part.clone()) for part in parts)
        return sum(parts)

    layers = range(2 * MODEL.layers)
    for m in range(len(tokens)):
        total = None
        for layer in layers:
            total = sums(("forward", m, layer), total)
        total = sums(("loss", m), total)
        for layer in reversed(layers):
            total = sums(("backward", m, layer), total)

    expected = unsharded_gradients(MODEL, tokens, seed=0)
    for rank, share in enumerate(shares):
        for name, parameter in share.parameters.items():
            torch.testing.assert_close(parameter.grad, Pieces.shard(MODEL, name, expected[name], rank, RANKS))
    assert all(part.equal(as_given) for part, as_given in seen)


def test_a_step_holds_no_activation_of_a_microbatch_whose_backward_has_run() -> None:
    model = MODEL.changed(layers=1)
    tokens = [torch.zeros(1, 9, dtype=torch.int64) for _ in range(2)]
    step = TensorParallelStep(Pieces(model, Pieces.full_parameters(model, seed=0)), tokens)
    segments = {segment.name: segment for segment in step.segments()}

    def held() -> int:
        shape = (1, 8, model.width)
        return sum(type(one) is torch.Tensor and one.shape == shape for one in gc.get_objects())

    def run(names: list[Name], total: Any = None) -> Any:
        for name in names:  # over one rank the sum is what it gave
            total = next(iter(segments[name].work(dict.fromkeys(segments[name].needs, total)).values()), None)
        return total

    before = held()
    for m in range(len(tokens)):
        total = run([("forward", m, 0), ("forward", m, 1), ("loss", m)])
        assert held() > before
        assert run([("backward", m, 1), ("backward", m, 0)], total) is None
        del total
        assert held() == before
