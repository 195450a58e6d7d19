"""Numbers in fewer bytes: how far off they are, and that nothing is lost for good."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from overlayccl_core.process_group.compressors import BLOCK, COMPRESSORS, Compressor, Feedback
from overlayccl_core.process_group.parts import LossySetting

NAMES = sorted(COMPRESSORS)
BYTES = {"bf16": 2, "int8": 1}
SIZES = st.integers(1, 2 * BLOCK + 3)


def rows(seed: int, elements: int, scale: float = 1.0) -> torch.Tensor:
    """Two rows of float32, of several magnitudes."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(2, elements, generator=generator)
    return scale * numbers * 10 ** (2 * torch.randn(2, elements, generator=generator))


def there_and_back(compressor: Compressor, given: torch.Tensor) -> torch.Tensor:
    wire = compressor.encode(given)
    assert wire.dtype == torch.uint8 and len(wire) == len(given) and wire.is_contiguous()
    return compressor.decode(wire, given.shape[1])


def test_a_setting_names_each_compressor() -> None:
    assert [LossySetting.of(name).compressor for name in NAMES] == NAMES


@given(st.integers(0, 2**31), SIZES, st.sampled_from([1e-20, 1.0, 1e20]))
def test_bf16_is_off_by_less_than_a_part_in_256(seed: int, elements: int, scale: float) -> None:
    given = rows(seed, elements, scale)
    found = there_and_back(COMPRESSORS["bf16"], given)
    assert ((found - given).abs() <= given.abs() / 256).all()


@given(st.integers(0, 2**31), SIZES, st.sampled_from([0.0, 1e-20, 1.0, 1e20]))
def test_int8_is_off_by_half_a_step_of_its_block(seed: int, elements: int, scale: float) -> None:
    given = rows(seed, elements, scale)
    found = there_and_back(COMPRESSORS["int8"], given)
    for begin in range(0, elements, BLOCK):
        block = given[:, begin : begin + BLOCK]
        half = block.abs().amax(1, keepdim=True) / 127 / 2
        assert ((found[:, begin : begin + BLOCK] - block).abs() <= 1.001 * half).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_wire_has_as_many_bytes_as_promised(name: str) -> None:
    wire = COMPRESSORS[name].encode(torch.ones(3, 8 * BLOCK))
    assert BYTES[name] <= wire.shape[1] / (8 * BLOCK) < BYTES[name] + 0.005


@pytest.mark.parametrize("name", NAMES)
@given(st.integers(0, 2**31), SIZES)
def test_what_a_step_loses_the_next_ones_bring(name: str, seed: int, elements: int) -> None:
    compressor, feedback = COMPRESSORS[name], Feedback()
    steps = [rows(seed + step, elements) for step in range(20)]
    sent = [compressor.decode(feedback.encode(compressor, "a", step), elements) for step in steps]
    apart = torch.stack(sent).double().sum(0) - torch.stack(steps).double().sum(0)
    assert (apart + feedback._lost["a"]).abs().max() <= 1e-4 * max(one.abs().max() for one in steps)


def test_small_numbers_beside_a_large_one_vanish_only_without_feedback() -> None:
    compressor, feedback = COMPRESSORS["int8"], Feedback()
    given = torch.full((1, BLOCK), 0.3)
    given[0, 0] = 127.0  # a step is 1.0
    assert not there_and_back(compressor, given)[0, 1:].any()
    sent = sum(compressor.decode(feedback.encode(compressor, "a", given), BLOCK) for _ in range(100))
    assert (sent[0, 1:] / 100 - 0.3).abs().max() < 0.01


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_arrives_so_and_is_gone_in_the_next_step(name: str, value: float) -> None:
    compressor, feedback = COMPRESSORS[name], Feedback()
    given = torch.ones(1, 10)
    given[0, 3] = value
    assert not compressor.decode(feedback.encode(compressor, "a", given), 10)[0, 3].isfinite()
    after = compressor.decode(feedback.encode(compressor, "a", torch.ones(1, 10)), 10)
    assert (after - 1).abs().max() < 0.01
