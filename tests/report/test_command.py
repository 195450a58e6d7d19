"""`overlayccl report`: where the page goes, and one message for what is no run."""

import shutil
from pathlib import Path

import pytest

from overlayccl_core.cli.main import main


def test_the_page_goes_into_the_first_tree(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train", "problems"):
        shutil.rmtree(run / name)
    assert main(["report", str(run)]) == 0
    file = run / "report.html"
    assert capsys.readouterr().out.split() == [str(file)]
    assert file.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("path", "said"), [("nowhere", "give folders of runs"), ("", "run snakemake")])
def test_what_is_no_run_gives_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, said: str
) -> None:
    assert main(["report", str(tmp_path / path)]) == 2
    assert said in capsys.readouterr().err
