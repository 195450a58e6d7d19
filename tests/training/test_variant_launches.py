"""Variants of the Llama-like model on real ranks: gradients, products and memory of their arms."""

from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.models import sites_of
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.training.launches import train
from overlayccl_core.training.pieces import pieces_of
from overlayccl_core.training.plan import Arm
from tests.timing.batches import silent
from tests.training.arms_by_hand import RANKS, Arms, failures

pytestmark = pytest.mark.ranks
M, LAYERS = 2, 3
ULYSSES = "context_parallel_ulysses"
MODEL = models.load("nano-fsdp").changed(layers=LAYERS)
CHEATS = '''
from overlayccl_core.program.language import Library, add, all_gather, all_reduce, attend, concat

def of_another_layer(io, p):
    """Two layers' parameters are taken for one another."""
    fulls = [all_gather(io.read("shard", layer), p.shard_axis) for layer in p.layer_order]
    for m in range(p.microbatches):
        for i, layer in enumerate(p.layer_order):
            io.write("full", m, layer, fulls[max(i, 1)])

def drops_a_part(io, p):
    """What one part of a block adds is never summed."""
    for m in range(p.microbatches):
        for layer in p.layer_order:
            attention, mlp = [io.read("partial", m, layer, part) for part in range(p.parts)]
            io.write("total", m, layer, add(all_reduce(attention, "sum"), mlp))

def looks_at_its_own(io, p):
    """Every rank takes its own keys and values for those of all ranks."""
    for slot in range(p.slots):
        io.write("full", slot, concat([io.read("shard", slot)] * p.world_size, 1))

def forgets(io, p):
    """Every rank attends to its own positions alone."""
    q, k, v = io.read("q"), io.read("k"), io.read("v")
    found = attend(q, k, v, 0, 0)
    io.write("out", found[0])
    io.write("lse", found[1])

LIBRARY = Library(developer="of_another_layer", hand_bundled="drops_a_part")
'''


def arms_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """arm -> its row of the first launch."""
    return {row["arm"]: row for row in rows if row["purpose"] == "timed"}


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    arms = Arms(MODEL, CHEATS)
    for name in ("prefetched", "gathered_once", "merged_under_256_mib"):
        arms.add(name, scatter=name, gradients="one_by_one", regather=name, gather=name)
    plain = "one_by_one"
    arms.add(plain, scatter="gathered_once", gradients=plain, regather=plain, gather=plain)
    arms.arms += [Arm(name=name, microbatches=M) for name in ("fsdp", "fsdp_last_kept")]
    arms.add_deployed(fsdp_prefetch="prefetched", grad_ar="one_by_one")
    arms.add(
        "wrong", scatter="prefetched", gradients="flat", regather="of_another_layer", gather="prefetched"
    )
    return train(arms.training(launches=1), tmp_path_factory.mktemp("sharded"), "train", "", silent)


def test_sharded_arms_have_the_gradients_of_the_unsharded_model_but_one_that_gathers_wrongly(
    sharded: list[dict[str, Any]],
) -> None:
    arms = arms_of(sharded)
    for name, row in arms.items():
        assert (row["gradient_rel_error"] < 1e-5) == (name != "wrong"), (name, row["gradient_rel_error"])
    assert arms["wrong"]["gradient_rel_error"] > 1e-2


def test_sharded_arms_multiply_the_same_matrices_and_call_as_often_as_they_gather(
    sharded: list[dict[str, Any]],
) -> None:
    arms = arms_of(sharded)
    assert len({(row["matmuls"], row["matmul_digest"]) for row in arms.values()}) == 1
    calls = {name: row["collectives"] for name, row in arms.items()}
    means = 3  # embedding, norm, head
    assert calls["prefetched"] == means + 3 * M * LAYERS
    assert calls["gathered_once"] == means + 3 * LAYERS
    assert calls["deployed"] == calls["prefetched"]
    assert calls["fsdp"] == 1 + 3 * M * LAYERS
    assert calls["fsdp_last_kept"] == calls["fsdp"] - M  # a gather less in each backward pass
    assert calls["merged_under_256_mib"] == means + 3


def test_what_is_gathered_counts_as_memory_while_it_is_held(sharded: list[dict[str, Any]]) -> None:
    held = {name: row["peak_memory_bytes"] for name, row in arms_of(sharded).items()}
    parameters = pieces_of(MODEL).full_parameters(MODEL, seed=0)
    whole = parameters["blocks.0"].nbytes
    assert held["gathered_once"] - held["one_by_one"] >= whole
    shards = sum(one.nbytes for one in parameters.values()) // 2
    assert min(held.values()) > shards  # and gradients
    assert held["deployed"] == pytest.approx(held["prefetched"], rel=0.2)
    assert held["fsdp"] > 2 * whole  # torch's own lets go, too


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    model = models.load("nano-parallel")
    arms = Arms(model.changed(layers=LAYERS, batch=M, microbatches=(M,), loss_microbatches=M), CHEATS)
    for name in ("developer", "two_sums"):
        arms.add(name, entry=name, exit=name)
    arms.add("wrong", entry="developer", exit="drops_a_part")
    arms.add_deployed(layer_block_ar="merged_over_microbatches")
    return train(arms.training(launches=1), tmp_path_factory.mktemp("parallel"), "train", "", silent)


def test_a_parallel_block_sums_both_parts_in_both_passes(parallel: list[dict[str, Any]]) -> None:
    arms = arms_of(parallel)
    for name, row in arms.items():
        assert (row["gradient_rel_error"] < 1e-5) == (name != "wrong"), (name, row["gradient_rel_error"])
    assert len({(row["matmuls"], row["matmul_digest"]) for row in arms.values()}) == 1
    assert arms["developer"]["collectives"] == 2 * M * LAYERS
    assert arms["two_sums"]["collectives"] == 2 * 2 * M * LAYERS
    assert arms["deployed"]["collectives"] == 2 * LAYERS


@pytest.fixture(scope="module")
def in_context(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    model = models.load("nano-context").changed(
        layers=LAYERS, batch=M, microbatches=(M,), loss_microbatches=M
    )
    arms = Arms(model, CHEATS)
    gathers = [site.name for site in sites_of(model, M, RANKS) if site.problem == "ring_kv"]
    for name in ("per_slot", "joined"):
        arms.add(name, gradients="flat", **dict.fromkeys(gathers, name))
    forward = {name: "looks_at_its_own" for name in gathers if not name.endswith("_backward")}
    arms.add("wrong", gradients="flat", **{**dict.fromkeys(gathers, "joined"), **forward})
    arms.add_deployed(ring_kv="joined", grad_ar="flat")
    arms.arms += [Arm(name=name, microbatches=M) for name in ("context_parallel_joined", ULYSSES)]
    return train(arms.training(launches=1), tmp_path_factory.mktemp("context"), "train", "", silent)


def test_ranks_with_some_positions_each_look_at_those_of_all(in_context: list[dict[str, Any]]) -> None:
    arms = arms_of(in_context)
    for name, row in arms.items():
        assert (row["gradient_rel_error"] < 1e-5) == (name != "wrong"), (name, row["gradient_rel_error"])
    calls = {name: row["collectives"] for name, row in arms.items()}
    assert calls["joined"] == calls["deployed"] == calls["context_parallel_joined"] == 1 + 2 * M * LAYERS
    assert calls["per_slot"] == calls[ULYSSES] == 1 + 2 * 2 * M * LAYERS


def test_other_heads_of_more_positions_are_other_products_and_all_else_multiplies_the_same(
    in_context: list[dict[str, Any]],
) -> None:
    """A rank attends as often, to other shapes. Of the framework's own that is no fault, ours would be refused."""
    arms = arms_of(in_context)
    digests = {name: row["matmul_digest"] for name, row in arms.items()}
    others = digests.pop(ULYSSES)
    assert set(digests.values()) == {digests["joined"]} != {others}
    assert len({row["matmuls"] for row in arms.values()}) == 1
    assert failures(in_context)[ULYSSES] == {Reason.OTHER_MATMULS}


@pytest.fixture(scope="module")
def of_attention(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    model = models.load("nano-attention").changed(layers=1, batch=M, microbatches=(1,), loss_microbatches=1)
    arms, site = Arms(model, CHEATS), "attention_0_0"
    for name, back in (("gathered", "gathered_and_scattered"), ("ring", "ring_of_gradients")):
        arms.add(name, microbatches=1, gradients="flat", **{site: name, f"{site}_backward": back})
    arms.add(
        "wrong",
        microbatches=1,
        gradients="flat",
        **{site: "forgets", f"{site}_backward": "ring_of_gradients"},
    )
    return train(arms.training(launches=1), tmp_path_factory.mktemp("attention"), "train", "", silent)


def test_ways_of_attention_differ_in_products_and_the_models_own_are_the_same(
    of_attention: list[dict[str, Any]],
) -> None:
    arms = arms_of(of_attention)
    for name, row in arms.items():
        assert (row["gradient_rel_error"] < 1e-5) == (name != "wrong"), (name, row["gradient_rel_error"])
    assert len({(row["matmuls"], row["matmul_digest"]) for row in arms.values()}) == 1


def test_the_training_gate_rejects_what_the_variants_do_wrongly(
    sharded: list[dict[str, Any]],
    parallel: list[dict[str, Any]],
    in_context: list[dict[str, Any]],
    of_attention: list[dict[str, Any]],
) -> None:
    for rows in (sharded, parallel, in_context, of_attention):
        for name, failed in failures([row for row in rows if row["arm"] != ULYSSES]).items():
            wrong = {Reason.WRONG_GRADIENT, Reason.OTHER_LOSSES} if name == "wrong" else set()
            assert failed == wrong, name
