"""`overlayccl report`: where the page goes, and one message for what is no run."""

import shutil
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main


def test_the_page_goes_into_the_first_tree(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, run := tmp_path / "local")
    shutil.rmtree(run / "train")
    assert main(["report", str(run)]) == 0
    file = run / "report.html"
    assert capsys.readouterr().out.split() == [str(file)]
    assert file.read_text().startswith("<!doctype html>")


def test_what_is_no_run_gives_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "give folders of runs" in capsys.readouterr().err
