"""Theta from its tables, and prices as the columns that tables have."""

import polars as pl

from overlayccl_core.costmodel.features import Term
from overlayccl_core.costmodel.price import Price
from overlayccl_core.costmodel.theta import Theta


def theta_of(theta: pl.DataFrame, fidelity: pl.DataFrame) -> Theta:
    """Theta from its table, with the residuals that the deployment's `fidelity` holds."""
    heldout = fidelity.filter(pl.col("problem").is_null()).row(0, named=True)
    return Theta.from_rows(
        theta.iter_rows(named=True),
        residual_low=heldout["residual_low"],
        residual_high=heldout["residual_high"],
    )


def price_columns(found: Price | None) -> dict[str, float | None]:
    """The columns of a price; all null where there is none."""
    if found is None or found.us is None:
        return dict.fromkeys(("predicted_us", "low_us", "high_us", *(f"{term.value}_us" for term in Term)))
    terms = {f"{term.value}_us": found.terms.get(term) for term in Term}
    return {"predicted_us": found.us, "low_us": found.low_us, "high_us": found.high_us, **terms}
