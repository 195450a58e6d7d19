"""Overlap on two hosts of one rank each, so that every rank has a core: what hides behind computing shows.

Each arm runs in turns with its own calls, each waited for where it starts: the same calls, the same computing.
"""

from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.overlap import PARTS, overlap_of
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.training.launches import train
from tests.hosts import hosts_or_skip
from tests.timing.batches import silent
from tests.training.arms_by_hand import Arms

HOSTS = load("config/deployments/two-hosts.yaml")
SHARDED = ("gather", "regather", "scatter")
# Gradients in buckets as they are ready; parameters gathered ahead, their gradients scattered behind the computing.
OVERLAPPED = {
    "nano-dp": {"gradients": "ddp_1_4_16_mib"},
    "nano-fsdp-m1": {**dict.fromkeys(SHARDED, "prefetched"), "gradients": "flat"},
}
UNAWAITED = ("in_flight", "reduce_scatter:world:1", "4")


@pytest.mark.ranks
@pytest.mark.parametrize("model", OVERLAPPED)
def test_calls_in_flight_beside_computing_beat_the_same_calls_waited_for(model: str, tmp_path: Path) -> None:
    arms = Arms(models.load(model), deployment=hosts_or_skip(HOSTS))
    purposes = (Purpose.TIMED, *PARTS, Purpose.WAITED)
    arms.add("overlapped", purposes, microbatches=1, rewrite=UNAWAITED, **OVERLAPPED[model])
    steps = {"seconds": 6, "minimum_steps": 6, "maximum_steps": 12, "in_turns": True, "loss_seeds": ()}
    said = []
    for attempt in range(2):  # launches beside other work decide nothing: once more
        rows = train(arms.training(launches=4, **steps), tmp_path, f"overlap-{attempt}", "", silent)
        overlap = overlap_of(model, pl.DataFrame([{**row, "stamps": None} for row in rows]))
        assert overlap is not None and overlap.gain is not None
        print(overlap.said)
        if overlap.gain.beyond_noise:
            return
        said.append(overlap.said)
    raise AssertionError(said)
