"""What practitioners write for experts, losses and contexts, on real ranks, against the same without ranks."""

import json
from pathlib import Path

import pytest

from overlayccl_core.backends.torchdist import context
from overlayccl_core.launching.launch import Launch
from overlayccl_core.measuring.frameworks import WAYS, Framework
from tests.backends.torchdist import by_hand_worker
from tests.on_ranks import launch

RANKS = 4
WORKER = by_hand_worker.__name__


@pytest.mark.ranks
def test_values_and_gradients_are_those_without_ranks(tmp_path: Path) -> None:
    names = tuple(by_hand_worker.scenarios())
    launch(Launch(worker=WORKER, folder=tmp_path, ranks=RANKS, names=names))
    for rank in range(RANKS):
        errors = json.loads((tmp_path / f"errors-{rank}.json").read_text())
        assert tuple(errors) == names
        for name, of_one in errors.items():
            assert all(error < 1e-5 for error in of_one.values()), (rank, name, of_one)


def test_every_way_is_an_arm() -> None:
    arms = [way.settings for way in WAYS.values() if way.framework is Framework.EXPERTS]
    assert {arm["exchange"] for arm in arms} == set(by_hand_worker.EXCHANGES)
    assert {arm["entropy"] for arm in arms} == set(by_hand_worker.ENTROPIES)
    arms = [way.settings for way in WAYS.values() if way.framework is Framework.CONTEXT]
    assert {arm["exchange"] for arm in arms} == set(context.EXCHANGES)
