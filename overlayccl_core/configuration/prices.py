"""Prices of a node's hour and a model's tokens: config/prices.yaml, each with its date and source."""

import datetime
from pathlib import Path

from pydantic import Field

from overlayccl_core.configuration.fields import Fields, read

FILE = Path("config/prices.yaml")
OLD_DAYS = 180  # older prices are shown with their age


class Dated(Fields):
    """Date and source of a price."""

    date: datetime.date = Field(description="the day of the source, as 2026-06-25")
    source: str = Field(pattern=r"^https://\S+", description="the page, and what else confirms it")

    def old_days(self, today: datetime.date) -> int | None:
        """Return the age in days if it is over OLD_DAYS; else None."""
        days = (today - self.date).days
        return days if days > OLD_DAYS else None


class InstancePrice(Dated):
    """Price of one instance on demand, without tax, storage and traffic."""

    instance: str = Field(min_length=1, description="its type, as `node` of a deployment names it")
    region: str = Field(pattern=r"^[a-z]+(-[a-z]+)+-\d$", description="of the provider, such as us-west-2")
    usd_per_hour: float = Field(gt=0, description="US dollars an hour, on demand")


class ModelPrice(Dated):
    """US dollars of a million tokens, without tax, contract discounts and regional surcharges."""

    model: str = Field(min_length=1, description="its name, as requests name it")
    longest_prompt: int | None = Field(
        default=None,
        ge=1,
        description="for prompts of at most so many tokens, cached ones among them; none: for all",
    )
    input: float = Field(ge=0, description="US dollars of a million tokens said that no cache is asked for")
    output: float = Field(
        ge=0, description="US dollars of a million tokens answered, thought ones among them"
    )
    cache_read: float = Field(ge=0, description="US dollars of a million tokens said that a cache had")
    cache_write: float = Field(
        ge=0, description="US dollars of a million tokens said that a cache takes for five minutes"
    )


class Prices(Fields):
    """The table. The first matching price counts: of an instance, or of a model whose prompt limit fits."""

    prices: tuple[InstancePrice, ...] = Field(
        default=(), description="each with instance, region, usd_per_hour, date and source"
    )
    models: tuple[ModelPrice, ...] = Field(
        default=(),
        description="each with model, input, output, cache_read, cache_write (USD a million tokens), date, source",
    )

    def of_model(self, model: str, prompt_tokens: int) -> ModelPrice | None:
        """Return the price of a model for a prompt of so many tokens; None if the table has none."""
        of_it = (price for price in self.models if price.model == model)
        return next((p for p in of_it if prompt_tokens <= (p.longest_prompt or prompt_tokens)), None)


def load(root: Path) -> Prices:
    """Return the table below a root; empty if the file does not exist. ValueError: file, field and mend."""
    file = root / FILE
    return read("table of prices", file, Prices) if file.is_file() else Prices()


def price_of(node: str, root: Path) -> InstancePrice | None:
    """Return the price of a kind of node; None if the table has none. ValueError: file, field and mend."""
    return next((price for price in load(root).prices if price.instance == node), None)
