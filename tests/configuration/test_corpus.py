"""A folder of text: which files count, how each is cut, and what is no text."""

from pathlib import Path

import pytest

from overlayccl_core.configuration import corpus


def test_no_character_is_cut_in_two(tmp_path: Path) -> None:
    for length in range(20, 60):
        (tmp_path / "a.txt").write_text("é€𝄞" * length)
        corpus.read.cache_clear()
        train, validation = corpus.read(tmp_path)
        assert train.decode() + validation.decode() == "é€𝄞" * length
        assert 0 < len(validation) <= len(train + validation) / corpus.HELD_OUT + 3


def test_a_file_that_is_no_text_is_named_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.gz").write_bytes(b"ok\x1f\x8b\x08")
    with pytest.raises(ValueError, match=r"b\.gz .*at byte 3") as error:
        corpus.read(tmp_path)
    assert "\n" not in str(error.value)


def test_files_are_taken_in_the_order_of_their_names_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", ".git/config", "a/.DS_Store"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [path.relative_to(tmp_path).as_posix() for path in corpus.files_of(tmp_path)] == [
        "a/z.txt",
        "b.txt",
    ]
