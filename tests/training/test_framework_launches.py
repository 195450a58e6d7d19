"""The framework's own arms on real ranks: each trains as the developer's does, with the same matrix products."""

from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.models import Model
from overlayccl_core.measuring.frameworks import framework_arm
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import Arm
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms

pytestmark = pytest.mark.ranks
M, LAYERS = 2, 2
PLAIN = {"fsdp_prefetch": "prefetched", "pp_send_recv": "send_receive", "grad_ar": "one_by_one"}
FOUR = ("nano-pp", "nano-moe-v")  # ranks: gradients of stages are averaged; six experts lie unevenly
BOTH = ("nano", "nano-parallel", "nano-dp", "nano-fsdp", "nano-pp")  # counts, as M matters to their arms


def small(name: str) -> Model:
    counts = (1, M) if name in BOTH else (M,)
    return models.load(name).changed(layers=LAYERS, batch=M, microbatches=counts, loss_microbatches=M)


@pytest.fixture(scope="module", params=[*BOTH, "nano-moe-v", "nano-attention"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, unrepeated: None
) -> dict[tuple[int, str], dict[str, Any]]:
    """(M, arm) -> its row."""
    model = small(request.param)
    arms = Arms(model, deployment="local" if request.param in FOUR else "local-2")
    for m in model.microbatches:
        arms.add("developer", microbatches=m, **PLAIN)
        for name in model.framework_arms:
            if (way := framework_arm(name)) is not None and way.least_microbatches <= m:
                arms.arms.append(Arm(name=name, microbatches=m, weighed=m == model.microbatches[0]))
    folder = tmp_path_factory.mktemp(request.param)
    rows = train(arms.training(launches=1), folder, "train-test", "", silent)
    return {(row["microbatches"], row["arm"]): row for row in rows}


def test_every_arm_has_the_gradients_of_the_unsharded_model(
    trained: dict[tuple[int, str], dict[str, Any]],
) -> None:
    assert {row["message"] for row in trained.values()} == {""}
    errors = {which: row["gradient_rel_error"] for which, row in trained.items()}
    assert all(error < 1e-5 for error in errors.values()), errors


def test_at_one_count_of_microbatches_all_multiply_the_same_matrices(
    trained: dict[tuple[int, str], dict[str, Any]],
) -> None:
    for count in {m for m, _ in trained}:
        told = {
            arm: (row["matmuls"], row["matmul_digest"]) for (m, arm), row in trained.items() if m == count
        }
        assert len(told) > 1 and len(set(told.values())) == 1, told


def test_calls_of_a_pipeline_are_those_of_its_later_steps_weighed_or_not(
    trained: dict[tuple[int, str], dict[str, Any]],
) -> None:
    """The first step of torch's pipelines sends shapes, too. A stage has one exchange a microbatch and one mean."""
    counts = {m: row["collectives"] for (m, arm), row in trained.items() if arm == "gpipe"}
    assert counts in ({}, {m: m + 1 for m in (1, M)})


def test_calls_are_counted_whichever_of_torchs_names_they_have(
    trained: dict[tuple[int, str], dict[str, Any]],
) -> None:
    counts = {arm: row["collectives"] for (_, arm), row in trained.items() if arm.startswith("experts")}
    if counts:
        exchanges, losses = 4 * LAYERS, 4  # hidden states, maximum, sums; hidden states back
        assert counts["experts"] == counts["experts_functional"] == M * (exchanges + losses) + 1
        assert counts["experts_exact"] == counts["experts"] + M * LAYERS
