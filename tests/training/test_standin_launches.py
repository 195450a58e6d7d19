"""Models that train on ranks whose calls are those of torch_xla, which the stand-in makes on the CPU."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import sites_of
from overlayccl_core.program.library import read_library
from overlayccl_core.training.launches import train
from overlayccl_core.training.worker import COMPILING
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms

pytestmark = pytest.mark.ranks
M = 2


@pytest.mark.parametrize("name", ["nano", "nano-parallel", "nano-dp", "nano-fsdp", "nano-pp"])
def test_a_step_has_the_unsharded_models_gradients_and_its_compiling_is_kept_apart(
    name: str, tmp_path: Path, unrepeated: None
) -> None:
    deployment = load("config/deployments/standin.yaml")
    model = models.load(name).changed(layers=2, batch=4, microbatches=(M,), loss_microbatches=M)
    developers = {
        site.name: read_library(catalog.library_source(site.problem)).developers[0]
        for site in sites_of(model, M, deployment.ranks)
    }
    arms = Arms(model, deployment=deployment)
    arms.add("developer", microbatches=M, **developers)
    training = arms.training(launches=1, loss_seeds=())
    [row] = train(training, tmp_path, "train", "", silent)
    assert row["gradient_rel_error"] < 1e-5
    assert len(row["cold_us"]) == COMPILING and len(row["steps_us"]) >= training.settings.minimum_steps
    assert row["collectives"] == sum(stamp["calls"] for stamp in row["stamps"].values()) > 0
    assert len(row["losses"]) == len(row["cold_us"]) + len(row["steps_us"])
