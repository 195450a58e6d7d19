"""What an hour of a node costs: a dated table, config/prices.yaml, each price with its source."""

import datetime
from pathlib import Path

from pydantic import Field

from overlayccl_core.configuration.fields import Fields, read

FILE = Path("config/prices.yaml")
OLD_DAYS = 180  # from then on the age of a price is told


class Price(Fields):
    """On demand, of one instance, without tax, storage and traffic."""

    instance: str = Field(min_length=1, description="its type, as `node` of a deployment names it")
    region: str = Field(pattern=r"^[a-z]+(-[a-z]+)+-\d$", description="of the provider, such as us-west-2")
    usd_per_hour: float = Field(gt=0, description="US dollars an hour, on demand")
    date: datetime.date = Field(description="the day of the source, as 2026-06-25")
    source: str = Field(pattern=r"^https://\S+", description="the page, and what else confirms it")

    def old_days(self, today: datetime.date) -> int | None:
        """Its age in days, where it is old; else None."""
        days = (today - self.date).days
        return days if days > OLD_DAYS else None


class Prices(Fields):
    """The table; of several prices of an instance the first one counts."""

    prices: tuple[Price, ...] = Field(description="each with instance, region, usd_per_hour, date and source")


def price_of(node: str, root: Path) -> Price | None:
    """The price of a kind of node; None where no table has one. ValueError: file, field and mend."""
    file = root / FILE
    table = read("table of prices", file, Prices).prices if file.is_file() else ()
    return next((price for price in table if price.instance == node), None)
