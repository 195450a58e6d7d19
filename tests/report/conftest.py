"""One run for all tests of the report: whoever changes it takes a copy."""

import shutil
from pathlib import Path

import pytest

from tests.report.fixture_tree import write_tree


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small whole run."""
    return write_tree(tmp_path_factory.mktemp("runs") / "local", problems=("tp_mlp",), data=False)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(whole, tmp_path / "local"))
