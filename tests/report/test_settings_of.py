"""The settings that a table was made with are in its sidecar's command."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from overlayccl_core.configuration.settings import read
from overlayccl_core.report.tree import settings_of
from overlayccl_core.tables.sidecar import write_sidecar

SETTINGS = read(Path(__file__).parents[2] / "config/config.yaml")


def made_with(folder: Path, *command: str) -> Path:
    path = folder / "bench.parquet"
    path.write_bytes(b"")
    now = datetime(2026, 1, 2, tzinfo=UTC)
    write_sidecar(path, inputs=(), command=("python", *command), started=now, ended=now)
    return path


def test_they_are_those_of_the_run_and_only_the_part_of_its_rule(tmp_path: Path) -> None:
    of_run = SETTINGS.changed(bench=SETTINGS.bench.changed(minimum_rounds=3))
    told = settings_of(made_with(tmp_path, "--settings", of_run.part("bench"), "--log", "x"))
    assert told is not None and told.bench == of_run.bench != SETTINGS.bench
    with pytest.raises(AttributeError, match=r"settings\.train is not"):
        _ = told.train


def test_without_a_sidecar_or_settings_in_it_nothing_is_known(tmp_path: Path) -> None:
    assert settings_of(tmp_path / "bench.parquet") is None
    assert settings_of(made_with(tmp_path, "--log", "x")) is None


@pytest.mark.parametrize("text", ["{", '{"bench": {"seconds": 3, "patience": 4}}'])
def test_settings_of_another_release_are_named_with_their_mend(tmp_path: Path, text: str) -> None:
    path = made_with(tmp_path, "--settings", text)
    with pytest.raises(ValueError, match=r"bench\.sidecar\.json: .*release.*Make"):
        settings_of(path)
