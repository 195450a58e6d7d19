"""torch's own data parallelism as a baseline: in the form in which people use it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from overlayccl_core.backends.torch_ranks.joining import RankPlace
from overlayccl_core.backends.torchdist import data_parallel, rank
from overlayccl_core.launching.status import WIDTH, StatusFile
from overlayccl_core.measuring.frameworks import framework_arm

SHARED = StatusFile(np.zeros((1, WIDTH), np.int64))
ALONE = RankPlace(rank=0, ranks=1, local_rank=0, local_ranks=1, shared=SHARED)


def test_gradients_stay_in_the_buckets_in_which_they_were_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def replicated(model: torch.nn.Module, **options: Any) -> SimpleNamespace:
        asked.update(options)
        return SimpleNamespace()

    monkeypatch.setattr(data_parallel, "DistributedDataParallel", replicated)
    here = rank.Rank(place=ALONE, device="cpu", status=None, folder=Path(), control=None)  # type: ignore[arg-type]
    arm = framework_arm("ddp_4")
    assert arm is not None
    here.framework_step(torch.nn.Linear(2, 2), arm)
    assert asked == {"bucket_cap_mb": 4.0, "gradient_as_bucket_view": True}
