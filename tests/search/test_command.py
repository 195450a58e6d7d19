"""The proposer `command`: what its check finds before anything starts."""

import sys
from pathlib import Path

import pytest

from overlayccl_core.configuration.searches import load
from overlayccl_core.search.proposers.command import check


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("no-such-program-anywhere there.py", "program 'no-such-"),
        ("{python} examples/answer.py", "examples/answer.py in "),
        ("{python} -u ./answer", "./answer in "),
        ("{python} there.py /nowhere/sketches", "/nowhere/sketches in "),
        ("sh gone.sh", "gone.sh in "),
        ("{python} there.py ./sketches", ""),
        ("{python} -m answers --model Qwen/Qwen3-8B --url http://127.0.0.1:8000/v1", ""),  # no files
        ("{python} -c 'import there; there.main() # there.py'", ""),
    ],
)
def test_a_program_or_a_file_that_is_not_there_is_said_before_anything_starts(
    command: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = load("command").changed(command=command.format(python=sys.executable))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sketches").mkdir()
    (tmp_path / "there.py").touch()
    if missing:
        with pytest.raises(ValueError, match=f"command: .*no {missing}.*give"):
            check(search)
    else:
        check(search)
