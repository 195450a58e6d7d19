"""The table of prices: dated, sourced, and refused where it is not."""

import datetime
from pathlib import Path

import pytest

from overlayccl_core.configuration.prices import FILE, OLD_DAYS, load, price_of

ROOT = Path(__file__).parents[2]
GOOD = """prices:
  - {instance: box, region: us-west-2, usd_per_hour: 2.5, date: 2026-06-25, source: "https://example.org"}
  - {instance: box, region: eu-west-1, usd_per_hour: 3.5, date: 2026-06-25, source: "https://example.org"}
"""


def written(root: Path, text: str) -> Path:
    (root / FILE).parent.mkdir()
    (root / FILE).write_text(text)
    return root


def test_every_price_that_is_shipped_has_a_date_and_a_source() -> None:
    price = price_of("trn1.32xlarge", ROOT)
    assert price is not None
    assert (price.usd_per_hour, price.region) == (21.5, "us-west-2")
    assert price.date == datetime.date(2026, 6, 25) and price.source.startswith("https://")


def test_the_first_price_of_an_instance_counts_and_no_table_has_none(tmp_path: Path) -> None:
    assert price_of("box", tmp_path) is None
    written(tmp_path, GOOD)
    price = price_of("box", tmp_path)
    assert price is not None and price.usd_per_hour == 2.5
    assert price_of("", tmp_path) is None


def test_a_price_is_old_after_180_days(tmp_path: Path) -> None:
    price = price_of("box", written(tmp_path, GOOD))
    assert price is not None
    assert price.old_days(price.date + datetime.timedelta(days=OLD_DAYS)) is None
    assert price.old_days(price.date + datetime.timedelta(days=OLD_DAYS + 1)) == 181


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((', source: "https://example.org"', ""), "prices.0.source: must"),
        (("date: 2026-06-25", "date: June"), "prices.0.date: "),
        (("usd_per_hour: 2.5", "usd_per_hour: -1"), "0.usd_per_hour: .*got -1"),
        (("region: us-west-2", "region: Oregon"), "prices.0.region: "),
    ],
)
def test_a_wrong_table_is_one_line_with_file_field_and_mend(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    written(tmp_path, GOOD.replace(*change))
    with pytest.raises(ValueError, match=message) as error:
        price_of("box", tmp_path)
    assert str(error.value).startswith(f"{tmp_path / FILE}: ") and "\n" not in str(error.value)


def test_the_first_price_of_a_model_that_a_prompt_fits_counts() -> None:
    prices = load(ROOT)
    short, long = (prices.of_model("claude-haiku-5-5", tokens) for tokens in (100_000, 100_001))
    assert short is not None and long is not None
    assert (short.input, short.output, long.input, long.output) == (0.1, 0.5, 0.5, 2.5)
    assert prices.of_model("claude-haiku", 1) is None


def test_every_model_that_is_shipped_has_a_price_for_prompts_of_any_length() -> None:
    prices = load(ROOT)
    assert prices.models
    for price in prices.models:
        assert prices.of_model(price.model, 10_000_000) is not None
        assert price.cache_read <= price.input <= price.cache_write <= price.output
