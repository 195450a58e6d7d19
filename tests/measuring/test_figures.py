"""Numbers as people read them."""

import pytest

from overlayccl_core.cli import render
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report import blocks


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1084.2, "1,080"), (999.7, "1,000"), (99.96, "100"), (12_345_678.0, "12,300,000")),
        *((12.34, "12.3"), (4.0, "4"), (0.0, "0"), (0.0000123, "0.0000123"), (-1084.2, "-1,080")),
    ],
)
def test_three_figures_without_an_exponent(value: float, text: str) -> None:
    assert figures(value) == text


def test_the_command_and_the_report_write_times_alike() -> None:
    assert render.ms(1_084_200.0) == "1,080" and blocks.ms(1_084_200.0) == "1,080 ms"
    assert render.ms(12.0) == "0.012" and blocks.ms(999.7) == "1,000 us"


def test_sizes_and_bandwidths_have_no_exponent_either() -> None:
    assert blocks.mebibytes(1080 * 2**20) == "1,080 MiB"
    assert render._bandwidths(123.4, 1084.0, None) == "123, 1,080"
