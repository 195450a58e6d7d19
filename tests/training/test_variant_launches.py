"""Variants of the Llama-like model on real ranks: gradients, products and memory of their arms."""

from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.training.launches import train
from tests.backends.batches import silent
from tests.training.arms_by_hand import Arms

pytestmark = pytest.mark.ranks
M, LAYERS = 2, 3
CHEATS = '''
from overlayccl_core.program.language import Library, all_gather

def of_another_layer(io, p):
    """Two layers' parameters are taken for one another."""
    fulls = [all_gather(io.read("shard", layer), p.shard_axis) for layer in p.layer_order]
    for m in range(p.microbatches):
        for i, layer in enumerate(p.layer_order):
            io.write("full", m, layer, fulls[max(i, 1)])

LIBRARY = Library(developer="of_another_layer")
'''


def arms_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """arm -> its row of the first launch."""
    return {row["arm"]: row for row in rows if row["purpose"] == "timed"}


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> dict[str, dict[str, Any]]:
    arms = Arms(models.load("nano-fsdp").changed(layers=LAYERS), CHEATS)
    for name in ("prefetched", "gathered_once", "merged_under_256_mib"):
        arms.add(name, scatter=name, gradients="developer", regather=name, gather=name)
    arms.add(
        "one_by_one",
        scatter="gathered_once",
        gradients="developer",
        regather="one_by_one",
        gather="one_by_one",
    )
    arms.add(
        "wrong", scatter="prefetched", gradients="flat", regather="of_another_layer", gather="prefetched"
    )
    return arms_of(train(arms.training(launches=1), tmp_path_factory.mktemp("sharded"), "train", "", silent))


def test_sharded_arms_have_the_gradients_of_the_unsharded_model_but_one_that_gathers_wrongly(
    sharded: dict[str, dict[str, Any]],
) -> None:
    for name, row in sharded.items():
        assert (row["gradient_rel_error"] < 1e-5) == (name != "wrong"), (name, row["gradient_rel_error"])
    assert sharded["wrong"]["gradient_rel_error"] > 1e-2


def test_sharded_arms_multiply_the_same_matrices_and_call_as_often_as_they_gather(
    sharded: dict[str, dict[str, Any]],
) -> None:
    assert len({(row["matmuls"], row["matmul_digest"]) for row in sharded.values()}) == 1
    calls = {name: row["collectives"] for name, row in sharded.items()}
    means = 3  # embedding, norm, head
    assert calls["prefetched"] == means + 3 * M * LAYERS
    assert calls["gathered_once"] == means + 3 * LAYERS
    assert calls["merged_under_256_mib"] == means + 3


def test_what_is_gathered_counts_as_memory_while_it_is_held(sharded: dict[str, dict[str, Any]]) -> None:
    held = {name: row["peak_activation_bytes"] for name, row in sharded.items()}
    whole = models.load("nano-fsdp").flat_rows() * 128 * 4
    print({k: v / whole for k, v in held.items()})
    assert held["gathered_once"] - held["one_by_one"] >= (LAYERS - 1) * whole
