"""Steps in a flight recorder's dump, and pickles that are more than a dump."""

import pickle
from pathlib import Path

import pytest

from overlayccl_core.observing.dumps import repeated
from overlayccl_core.observing.files import read_files


@pytest.mark.parametrize(
    ("calls", "length", "reach"),
    [
        ("xyabcabcabc", 3, 9),
        ("xabbbabbbabbb", 4, 12),  # not the three equal calls at its end
        ("abcabcab", 3, 8),  # it ends within a step
        ("abcd", 0, 0),
        ("", 0, 0),
    ],
)
def test_a_step_is_what_comes_again_up_to_the_end(calls: str, length: int, reach: int) -> None:
    assert repeated(calls) == (length, reach)


class Runs:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_nothing_of_a_pickle_is_run(tmp_path: Path) -> None:
    dump, touched = tmp_path / "dump-0.pkl", tmp_path / "touched"
    dump.write_bytes(pickle.dumps({"entries": [Runs(touched)]}))
    with pytest.raises(ValueError, match="no dump of a flight recorder"):
        read_files([dump])
    assert not touched.exists()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"{}", "neither a trace"),
        ("a.json", b"hello", "neither a trace"),
        ("a.json", b'{"traceEvents": []}', "one process alone"),
        ("a.pkl", b"\x80\x04", "no dump"),
        ("a.pkl", b'{"entries": []}', "whose dump is it"),
    ],
)
def test_a_file_that_is_something_else_says_so(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=why):
        read_files([tmp_path / name])
