"""Commands called in this process, on a deployment that was fitted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main
from overlayccl_core.cli.render import console
from tests.cli.repository import COLUMNS, REPOSITORY, STRATEGIES, Call, Done, fitted

SIZES = (
    "embedding 256x128\n" + "".join(f"block{i} 512x384\n" for i in range(6)) + "norm [128]\nhead 256x128\n"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with this one's configuration, a theta, and files to give to commands."""
    folder = tmp_path_factory.mktemp("fitted")
    shutil.copytree(REPOSITORY / "config", folder / "config")
    fitted(folder)
    (folder / "sizes.txt").write_text(SIZES)
    (folder / "mine.py").write_text(STRATEGIES)
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A repository with this one's configuration and no results."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    (tmp_path / "mine.py").write_text(STRATEGIES)
    return tmp_path


@pytest.fixture
def call(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """The command in a terminal of 80 columns; `--root` among its arguments names another repository."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    console.cache_clear()

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(["--root", str(root), *arguments])
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    yield run
    console.cache_clear()
