"""One more Problem is one file in problems/, one in strategies/ and one entry of the configuration."""

import shutil
from pathlib import Path

import pytest
import yaml

from overlayccl_core import catalog, loader
from overlayccl_core.gates.verdict import Outcome
from overlayccl_core.program.problem import Direction
from tests.known_cases import proof_of
from workflow_scripts.pipeline import prepare

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests/plugins"
ENTRY = {"microbatches": 3, "elements": 6}


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))


def test_it_has_cases_a_proxy_and_messages_like_those_that_are_here() -> None:
    case = catalog.case("shift", ENTRY, ranks=32, ranks_per_node=8)
    assert case.id == "shift/n32-r8-m3-24B-f32"
    small = catalog.proxy(case)
    assert small is not None and small.id == "shift/n8-r4-m2-24B-f32"
    assert catalog.proxy(small) is None
    with pytest.raises(ValueError, match=r"shift: elem.* 1 .got 0"):
        catalog.case("shift", {**ENTRY, "elements": 0}, ranks=4, ranks_per_node=4)


@pytest.mark.parametrize("strategy", ["developer", "bundled"])
def test_its_strategies_are_proven_in_both_directions(strategy: str) -> None:
    problems = catalog.directions(catalog.case("shift", ENTRY, ranks=4, ranks_per_node=4))
    assert [p.direction for p in problems] == [Direction.FORWARD, Direction.BACKWARD]
    _, verdict = proof_of(problems[0], strategy)
    assert verdict.outcome is Outcome.PASS


def test_one_entry_of_the_configuration_brings_it_into_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["problems"].append("shift")
    config["cases"]["shift"] = [ENTRY]
    pipeline = prepare(config, ())
    assert [case.id for case in pipeline.cases["shift"]] == ["shift/n4-m3-24B-f32"]
    assert {"problems/shift.py", "strategies/shift.py"} <= set(
        pipeline.plugins("known_ways", problem="shift")
    )
    assert pipeline.code("known_ways", problem="shift")
