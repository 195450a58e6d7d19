"""The folder of the best ways: for `overlayccl run --ways`, and a beginning for ranks that tune themselves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.cli.script import ways_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.process_group.online import Findings
from overlayccl_core.process_group.ways import ProvenWays
from overlayccl_core.program.case import Case
from overlayccl_core.tuning import open_ways
from overlayccl_core.tuning.keys import key_of
from overlayccl_core.tuning.lookup import lookup
from overlayccl_core.tuning.open_ways import Space, arms_of, module_of, rows_of
from overlayccl_core.tuning.recorded import RecordedCall
from overlayccl_core.tuning.replay import judged
from overlayccl_core.tuning.space import OpenWay, space_of

DEPLOYMENT = load("config/deployments/local-2.yaml")
FINGERPRINT = "host a, torch 2.13.0, library gloo, ranks 2 #0"


def case(elements: int, **placed: Any) -> Case:
    entry = {"calls": [{"kind": "all_to_all", "elements": elements}]}
    return catalog.case("captured", entry, ranks=2, ranks_per_node=2, **placed)


FASTER, AS_IT_IS = case(1024), case(64)


@pytest.fixture(scope="module")
def space() -> Space:
    return {one: space_of(catalog.build(one), None, None) for one in (FASTER, AS_IT_IS)}


def recorded(ways: Sequence[OpenWay], samples_us: np.ndarray) -> RecordedCall:
    repeats = np.ones(len(ways), np.int64)
    return RecordedCall(arms=tuple(arms_of(ways)), samples_us=samples_us, repeats=repeats)


@pytest.fixture
def folder(space: Space, tmp_path: Path) -> Path:
    """The last way of one call is the fastest, in both launches; of the other all are alike."""
    verdicts = {}
    for one, ways in space.items():
        us = np.full(len(ways), 1000.0)
        us[-1] = 500.0 if one == FASTER else 1000.0
        samples = us[:, None] * np.random.default_rng(0).lognormal(0, 0.02, (len(ways), 24))
        some = [0, 1, len(ways) - 1]
        verdicts[one] = judged(
            recorded(ways, samples), recorded([ways[way] for way in some], 2 * samples[some])
        )
    for name, text in lookup(space, verdicts, DEPLOYMENT, FINGERPRINT).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_script_takes_the_faster_way_and_leaves_the_other_call(space: Space, folder: Path) -> None:
    found = ways_of(folder)
    assert found.rows == [{"key": key_of(FASTER), "case": FASTER.id, "way": space[FASTER][-1].name}]
    assert found.ranks == 2 and not found.others
    laid = folder / "laid"
    laid.mkdir()
    found.lay(laid)
    ways = ProvenWays(laid)
    assert ways.fixed == {FASTER.id: space[FASTER][-1].name} and [*ways.cases] == [key_of(FASTER)]


def test_ranks_that_tune_themselves_begin_there(space: Space, folder: Path) -> None:
    where = json.loads((folder / "tuned-0.json").read_text())["where"]
    here = {"torch": "2.13.0", "world_size": 2, "local_world_size": "2"}
    assert where == here | {"ways": ProvenWays(folder).digest}
    begun = Findings(folder, 0, where)
    for one, way in ((FASTER, len(space[FASTER]) - 1), (AS_IT_IS, 0)):
        arms = arms_of(space[one])
        assert begun.begin(key_of(one).of((0, 1)), key_of(one), "", arms) == (arms[way], [])


def test_what_it_found_is_of_the_second_launch(space: Space, folder: Path) -> None:
    calls = json.loads((folder / "tuned-0.json").read_text())["calls"]
    [trial] = (found := calls[key_of(FASTER).of((0, 1))])["trials"]
    assert found["us"] == pytest.approx(1000, rel=0.05)  # 500 in the first
    assert (found["way"], trial["way"], trial["best"]) == (space[FASTER][-1].name,) * 2 + ("plain",)
    assert trial["ratio"] == pytest.approx(0.5, rel=0.05) and trial["pairs"] == 12


def test_its_files_are_those_that_run_online_lays_for_the_same_versions(
    space: Space, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_ways, "_installed", {"torch": "2.13.0"}.get)
    assert (folder / "captured.py").read_text() == module_of(space, DEPLOYMENT)
    assert (folder / "ways.json").read_text() == rows_of(space)


def test_groups_a_stride_apart_are_named_by_their_ranks() -> None:
    strided = case(1024, groups=3, strided=True)
    ways = space_of(catalog.build(strided), None, None)
    samples = np.full((len(ways), 12), 1.0)
    verdict = judged(recorded(ways, samples), recorded(ways, samples))
    files = lookup({strided: ways}, {strided: verdict}, DEPLOYMENT, FINGERPRINT)
    [name] = json.loads(files["tuned-0.json"])["calls"]
    assert name == key_of(strided).of((0, 3)) and name.endswith("2 3 1, ranks 0 3")
