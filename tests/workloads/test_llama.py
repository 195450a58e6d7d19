"""Parameter shapes of a Llama-like model."""

from math import prod

import pytest

from overlayccl_core.workloads.llama import parameter_sizes


def test_the_smaller_training_model_has_331_million_parameters() -> None:
    found = parameter_sizes(width=2048, hidden=5376, layers=4, vocabulary=32256)
    assert len(found) == 3 + 9 * 4
    assert sum(prod(shape) for _, shape in found) == 331_368_448


def test_names_differ() -> None:
    names = [name for name, _ in parameter_sizes(width=8, hidden=16, layers=2, vocabulary=32)]
    assert len(set(names)) == len(names)


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive hidden"):
        parameter_sizes(width=8, hidden=0, layers=2, vocabulary=32)
