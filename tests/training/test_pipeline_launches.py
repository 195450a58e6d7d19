"""A pipeline on real ranks: two pipelines of two stages train as one whole model, and what is wrong is seen."""

from typing import Any

import numpy as np
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training.launches import train
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms, failures
from tests.training.test_launches import M, rows
from tests.training.test_pipeline_parallel import CHEATS

pytestmark = pytest.mark.ranks
LAYERS = 2
HONEST = {
    "developer": {"stages": "send_receive", "gradients": "one_by_one"},
    "merged": {"stages": "merged_all_reduce", "gradients": "flat"},
}
WRONG = {
    "another_microbatchs": {"stages": "swaps_two_gradients", "gradients": "one_by_one"},
    "nothing_back": {"stages": "hands_nothing_back", "gradients": "one_by_one"},
    "sums": {"stages": "send_receive", "gradients": "sums"},
    "no_mean": {"stages": "send_receive", "gradients": "keeps_its_own"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, unrepeated: None) -> list[dict[str, Any]]:
    model = models.load("nano-pp").changed(layers=LAYERS, batch=M, microbatches=(M,), loss_microbatches=M)
    arms = Arms(model, CHEATS, "local")
    for name, sites in HONEST.items():
        arms.add(name, (Purpose.TIMED, Purpose.LOSS), **sites)
    for name, sites in WRONG.items():
        arms.add(name, **sites)
    return train(arms.training(launches=1), tmp_path_factory.mktemp("pp"), "train-test", "", silent)


def test_gradients_are_those_of_the_unsharded_model_and_the_gate_rejects_what_is_wrong(
    trained: list[dict[str, Any]],
) -> None:
    errors = {arm: timed[0]["gradient_rel_error"] for arm, timed in rows(trained, "timed").items()}
    for name, failed in failures(trained).items():
        if name in HONEST:
            assert not failed and errors[name] < 1e-5, name
        else:
            assert Reason.WRONG_GRADIENT in failed and errors[name] > 1e-2, name


def test_both_stages_are_counted_and_only_the_second_has_losses(trained: list[dict[str, Any]]) -> None:
    timed = {arm: launches[0] for arm, launches in rows(trained, "timed").items()}
    assert len({row["matmul_digest"] for row in timed.values()}) == 1
    # the second stage: a block of four matrices and attention, and the head; twice as many in the backward pass
    blocks = LAYERS // 2
    assert timed["developer"]["matmuls"] == M * (3 * (4 * blocks + 1) + 2 * blocks)
    assert timed["developer"]["stamps"]["stages"]["calls"] == 2 * M
    assert timed["merged"]["stamps"]["stages"]["calls"] == 2
    assert timed["merged"]["peak_memory_bytes"] > 0
    losses = {arm: np.array([row["losses"] for row in each]) for arm, each in rows(trained, "loss").items()}
    assert losses["developer"].shape == (2, 3, 2)  # seeds, steps, ranks of the second stage
    np.testing.assert_allclose(losses["merged"], losses["developer"], rtol=1e-4)
