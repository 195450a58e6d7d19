"""One more Problem is one file in problems/, one in strategies/ and one entry of the configuration."""

import shutil
from pathlib import Path

import pytest
import yaml

from overlayccl_core import catalog
from workflow_scripts.pipeline import prepare

ROOT = Path(__file__).parents[2]
ENTRY = {"elements": 6, "edge": 2}
pytestmark = pytest.mark.usefixtures("plug_ins")


def test_it_has_cases_a_proxy_and_messages_like_those_that_are_here() -> None:
    case = catalog.case("halo", ENTRY, ranks=32, ranks_per_node=8)
    assert case.id == "halo/n32-r8-24B-e2-f32"
    small = catalog.proxy(case)
    assert small is not None and small.id == "halo/n8-r4-24B-e2-f32"
    assert catalog.proxy(small) is None
    with pytest.raises(ValueError, match=r"halo: elem.* 1 .got 0"):
        catalog.case("halo", {**ENTRY, "elements": 0}, ranks=4, ranks_per_node=4)


def test_one_entry_of_the_configuration_brings_it_into_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["problems"].append("halo")
    config["cases"]["halo"] = [ENTRY]
    pipeline = prepare(config, ())
    assert [case.id for case in pipeline.cases["halo"]] == ["halo/n4-24B-e2-f32"]
    assert {"problems/halo.py", "strategies/halo.py"} <= set(pipeline.plugins("known_ways", problem="halo"))
    assert pipeline.code("known_ways", problem="halo")
