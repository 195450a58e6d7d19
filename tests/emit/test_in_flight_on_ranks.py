"""A Program in flight on real ranks: the model computes while a call cannot be over yet."""

import json
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.launching.launch import Launch
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.emit.in_flight_worker import ENTRY
from tests.known_cases import case
from tests.on_ranks import launch

pytestmark = pytest.mark.ranks
RANKS = 2


def test_a_call_stays_in_flight_across_a_write_while_a_segment_runs(tmp_path: Path) -> None:
    problem = catalog.build(case("tp_mlp", ENTRY, ranks=RANKS))
    steps = (("in_flight", "all_reduce:world:1", "2"),)
    (tmp_path / "module.py").write_text(emit(replay(Recipe(base="single_graph", steps=steps), problem)))
    launch(Launch(worker="tests.emit.in_flight_worker", folder=tmp_path, ranks=RANKS, names=("the step",)))
    for rank in range(RANKS):
        seen = json.loads((tmp_path / f"seen-{rank}.json").read_text())
        assert seen["ran"][:4] == [["block", m, layer] for layer in range(2) for m in range(2)]
        assert seen["given"] == [RANKS * value for value in (0, 10, 1, 11)]
