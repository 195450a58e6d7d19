"""Parameter shapes of a Llama-like model."""

from math import prod
from pathlib import Path

import pytest

from overlayccl_core.configuration import models
from overlayccl_core.workloads.llama import Sizes


def test_the_smaller_training_model_has_331_million_parameters() -> None:
    found = Sizes(width=2048, hidden=5376, layers=4, vocabulary=32256).parameter_sizes()
    assert len(found) == 3 + 6 * 4
    assert sum(prod(shape) for _, shape in found) == 331_368_448


def test_names_differ() -> None:
    names = [name for name, _ in Sizes(width=8, hidden=16, layers=2, vocabulary=32).parameter_sizes()]
    assert len(set(names)) == len(names)


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="hidden: must be greater than or equal to 1"):
        Sizes.from_data({"width": 8, "hidden": 0, "layers": 2, "vocabulary": 32})


def test_a_tensor_parallel_block_has_two_sums_in_each_direction() -> None:
    model = models.load("nano")
    entry, exit_ = models.sites_of(model, microbatches=8)
    assert (entry.name, exit_.name) == ("entry", "exit")  # backward goes on before forward
    assert exit_.entry == {"microbatches": 8, "layers": 8, "shape": [1, 64, 128], "site": "exit"}


def test_data_parallel_ranks_average_every_parameter_as_its_gradient_comes() -> None:
    model = models.load("nano-dp")
    [site] = models.sites_of(model, microbatches=2)
    assert site.problem == "grad_ar"
    assert site.entry["overlap"] is True
    assert len(site.entry["sizes"]) == 3 + 6 * model.layers


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, r"corpus: there is no folder .*texts: name one .*, or leave corpus out"),
        (0, r"corpus: .*texts has no files: put files of text there, or leave"),
        (
            500,
            r"corpus: .*texts has 450 bytes to train on, a batch of 8 texts of 64 tokens needs 521: add text",
        ),
        (
            5000,
            r"corpus: .*texts has 500 bytes to validate with, .* needs 521: add text, make batch or sequence",
        ),
    ],
)
def test_a_corpus_that_is_missing_or_too_short_is_refused(
    size: int | None, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    if size is not None:
        folder.mkdir()
    if size:
        (folder / "a.txt").write_bytes(b"x" * size)
    with pytest.raises(ValueError, match=message) as error:
        models.load("nano").changed(corpus=str(folder)).check(4)
    assert "\n" not in str(error.value)


def test_a_corpus_that_is_long_enough_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 5210)
    models.load("nano").changed(corpus=str(tmp_path)).check(4)
