"""Mixtures of experts on real ranks: even and uneven exchanges, and losses over a head that lies over the ranks."""

from typing import Any

import numpy as np
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training.launches import train
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms, failures

pytestmark = pytest.mark.ranks
CHEATS = '''
from overlayccl_core.program.language import Library, reduce_scatter, scale

def nine_tenths(io, p):
    """The gradients of the hidden states, a tenth of them lost."""
    io.write("d_shard", 0, scale(reduce_scatter(io.read("d_full", 0, 0), 0), 9, 10))

LIBRARY = Library(developer="nine_tenths")
'''
REST = {"dist_ce": "max_then_stacked", "fsdp_prefetch": "in_lockstep", "grad_ar": "flat"}
DEPLOYED = {
    "nano-moe": {"uniform_a2a": "gather_slice", **REST},
    "nano-moe-v": {"alltoallv": "packed_permute_ring", **REST},
}


@pytest.mark.parametrize(("name", "deployment"), [("nano-moe", "local-2"), ("nano-moe-v", "local")])
def test_gradients_are_those_of_the_unsharded_model_and_what_is_wrong_is_rejected(
    name: str, deployment: str, tmp_path: Any, unrepeated: None
) -> None:
    arms = Arms(models.load(name).changed(layers=2, batch=2), CHEATS, deployment)
    for microbatches in (1, 2):
        arms.add("developer", (Purpose.TIMED, Purpose.QUIET, Purpose.LOSS), microbatches=microbatches)
        arms.add_deployed(microbatches, **DEPLOYED[name])
        arms.add("wrong", microbatches=microbatches, hidden_0_backward="nine_tenths")
    trained = train(arms.training(launches=1, loss_seeds=(0,)), tmp_path, "train-test", "", silent)
    for microbatches in (1, 2):
        rows = [row for row in trained if row["microbatches"] == microbatches]
        timed = {row["arm"]: row for row in rows if row["purpose"] == Purpose.TIMED}
        assert timed["developer"]["gradient_rel_error"] < 1e-5
        assert timed["deployed"]["gradient_rel_error"] < 1e-5
        assert timed["wrong"]["gradient_rel_error"] > 1e-2
        failed = failures(rows)
        assert not failed["developer"] and Reason.WRONG_GRADIENT not in failed["deployed"]
        assert Reason.WRONG_GRADIENT in failed["wrong"]
    whole, split = (np.array(row["losses"]) for row in trained if row["purpose"] == Purpose.LOSS)
    np.testing.assert_allclose(split, whole, rtol=3e-5)  # with the decisions of the unsharded model
