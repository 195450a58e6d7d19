"""Text that every machine has, split and drawn alike everywhere."""

from pathlib import Path

import pytest
import torch

from overlayccl_core.training import text


def test_the_standard_library_is_enough_to_train_on_and_never_validates_on_what_it_trained_on() -> None:
    texts = text.standard_library()
    assert len(texts.train) > 1_000_000
    assert len(texts.train) > 3 * len(texts.validation) > 0
    stretch = bytes(texts.validation[1000:1200].tolist())
    assert stretch not in bytes(texts.train.tolist())


def test_batches_depend_on_their_arguments_alone() -> None:
    train = text.standard_library().train
    drawn = {
        (seed, step, replica): text.batch(train, seed=seed, step=step, replica=replica, shape=(2, 16))
        for seed in (0, 1)
        for step in (0, 1)
        for replica in (0, 1)
    }
    assert all(one.shape == (2, 17) and one.dtype == torch.int64 for one in drawn.values())
    assert len({tuple(one.flatten().tolist()) for one in drawn.values()}) == len(drawn)
    again = text.batch(train, seed=1, step=0, replica=1, shape=(2, 16))
    assert torch.equal(again, drawn[1, 0, 1])


def test_a_python_without_its_sources_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="without them"):
        text.standard_library(tmp_path)


def test_a_folder_of_ones_own_is_split_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.txt").write_bytes(b"a" * 20)
    (tmp_path / "below/b.txt").write_bytes(b"b" * 100)
    (tmp_path / ".hidden").write_bytes(b"c" * 100)
    texts = text.of(str(tmp_path))
    assert bytes(texts.train.tolist()) == b"a" * 18 + b"b" * 90
    assert bytes(texts.validation.tolist()) == b"a" * 2 + b"b" * 10
    assert text.of(None) is text.of(None) and len(text.of(None).train) > 1_000_000
