"""The framework's own arms on real ranks: each trains as the developer's does, with the same matrix products."""

from typing import Any

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.measuring.frameworks import framework_arm
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import Arm
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms

pytestmark = pytest.mark.ranks
M, LAYERS = 2, 2
PLAIN = {"fsdp_prefetch": "prefetched", "pp_send_recv": "send_receive", "grad_ar": "one_by_one"}


def small(name: str) -> Model:
    return models.load(name).changed(layers=LAYERS, batch=M, microbatches=(1, M), loss_microbatches=M)


@pytest.fixture(scope="module", params=["nano", "nano-parallel", "nano-dp", "nano-fsdp", "nano-pp"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, unrepeated: None
) -> dict[tuple[int, str], dict[str, Any]]:
    """(M, arm) -> its row. A pipeline has four ranks, so that its gradients are averaged."""
    model = small(request.param)
    arms = Arms(model, deployment="local" if request.param == "nano-pp" else "local-2")
    ranks = arms.deployment.ranks
    for m in model.microbatches:
        at_sites = {site.name: PLAIN.get(site.problem, "developer") for site in sites_of(model, m, ranks)}
        arms.add("developer", microbatches=m, **at_sites)
        for name in model.framework_arms:
            if (way := framework_arm(name)) is not None and way.least_microbatches <= m:
                arms.arms.append(Arm(name=name, microbatches=m))
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
    for count in (1, M):
        told = {
            arm: (row["matmuls"], row["matmul_digest"]) for (m, arm), row in trained.items() if m == count
        }
        assert len(told) > 1 and len(set(told.values())) == 1, told
