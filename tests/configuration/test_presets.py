"""A run's own preset: found where the run keeps it, by its name, and by nothing else."""

from pathlib import Path

import pytest
import yaml

from overlayccl_core.configuration.presets import OwnPreset
from overlayccl_core.configuration.settings import read

CONFIG = Path(__file__).parents[2] / "config" / "config.yaml"
ENTRY = {"payload": "1KiB"}
FIELDS = {
    "problems": ["uniform_a2a"],
    "models": [],
    "cases": {"uniform_a2a": [ENTRY]},
    "bench": {"seconds": 3},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration, and beside it what a run of its own keeps."""
    copied = tmp_path / "config" / "config.yaml"
    copied.parent.mkdir()
    copied.write_text(CONFIG.read_text())
    return copied


def keep(root: Path, **changes: object) -> OwnPreset:
    own = OwnPreset.told_apart("local", "tune", {**FIELDS, **changes})
    (root / own.path).parent.mkdir(parents=True)
    (root / own.path).write_text(own.text)
    return own


def test_it_is_a_preset_like_those_of_the_file_with_a_tree_of_its_own(file: Path, tmp_path: Path) -> None:
    own = keep(tmp_path)
    settings = read(file, {"preset": own.name})
    assert settings.problems == ("uniform_a2a",) and settings.models == ()
    assert settings.cases == {"uniform_a2a": (ENTRY,)} and settings.bench.seconds == 3
    assert settings.bench.maximum_rounds == read(file).bench.maximum_rounds
    assert own.path == Path("results", settings.tree, "preset.yaml")
    assert read(file, {"preset": own.name, "models": "nano"}).models == ("nano",)


def test_equal_fields_have_one_name_and_others_another() -> None:
    names = {
        OwnPreset.told_apart("local", "tune", fields).name
        for fields in (FIELDS, dict(reversed(FIELDS.items())), {**FIELDS, "models": ["nano"]})
    }
    assert len(names) == 2


def test_it_is_of_one_deployment_and_its_mistakes_are_told(file: Path, tmp_path: Path) -> None:
    own = keep(tmp_path, bench={"second": 3})
    with pytest.raises(ValueError, match=f"preset: there is no '{own.name}'"):
        read(file, {"preset": own.name, "deployment": "local-2"})
    with pytest.raises(ValueError, match=rf"presets.{own.name}.bench.second"):
        read(file, {"preset": own.name})
    (tmp_path / own.path).write_text("a: [")
    with pytest.raises(ValueError, match=r"preset\.yaml: not readable as YAML"):
        read(file, {"preset": own.name})


def test_a_name_that_is_no_name_leads_to_no_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "results" / "local-..").mkdir(parents=True)
    (tmp_path / "results" / "preset.yaml").write_text(yaml.safe_dump(FIELDS))
    with pytest.raises(ValueError, match="preset: there is no"):
        read(file, {"preset": "../.."})
