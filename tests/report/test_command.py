"""`overlayccl report`: where the page goes, and one message for what is no run."""

from pathlib import Path

import pytest

from overlayccl_core.cli.main import main
from tests.report.fixture_tree import write_tree


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("results") / "local", problems=("tp_mlp",), data=False)


def test_the_page_goes_into_the_first_tree(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    file = run / "report.html"
    assert capsys.readouterr().out.split() == [str(file)]
    assert file.read_text().startswith("<!doctype html>")


def test_what_is_no_run_gives_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "give folders of runs" in capsys.readouterr().err
