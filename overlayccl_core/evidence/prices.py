"""Theta from its tables, and prices as table columns."""

import polars as pl

from overlayccl_core.costmodel.features import Term
from overlayccl_core.costmodel.price import Price
from overlayccl_core.costmodel.theta import Theta


def theta_of(theta: pl.DataFrame, fidelity: pl.DataFrame) -> Theta:
    """Return theta from its table, with the residuals in the deployment's `fidelity`."""
    heldout = fidelity.filter(pl.col("problem").is_null()).row(0, named=True)
    return Theta.from_rows(
        theta.iter_rows(named=True),
        residual_low=heldout["residual_low"],
        residual_high=heldout["residual_high"],
    )


def price_columns(price: Price | None) -> dict[str, float | None]:
    """Return the columns of a price; all null without one."""
    if price is None or price.us is None:
        return dict.fromkeys(("predicted_us", "low_us", "high_us", *(f"{term.value}_us" for term in Term)))
    terms = {f"{term.value}_us": price.terms.get(term) for term in Term}
    return {"predicted_us": price.us, "low_us": price.low_us, "high_us": price.high_us, **terms}
