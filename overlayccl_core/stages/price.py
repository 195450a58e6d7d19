"""price: what the cost model says of every seed, by term. Needs no ranks."""

from collections.abc import Callable
from typing import Any

import polars as pl

from overlayccl_core.costmodel.features import Term
from overlayccl_core.costmodel.price import Price, price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.deployment import Deployment
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.fingerprints import one_fingerprint

Row = dict[str, Any]
OK = "ok"


def run(
    deployment: Deployment,
    seeds: pl.DataFrame,
    theta: pl.DataFrame,
    fidelity: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """The rows of `prices`: one for every seed that became a Program."""
    one_fingerprint({"theta": theta, "fidelity": fidelity}, "snakemake --profile local --forcerun fit")
    costs = theta_of(theta, fidelity)
    found = seeds.filter(pl.col("status") == "program")
    rows = [_row(seed, costs) for seed in found.iter_rows(named=True)]
    without = sum(row["predicted_us"] is None for row in rows)
    progress(f"{deployment.name}: {len(rows)} prices" + (f", {without} without a value" if without else ""))
    return {"prices": rows}


def theta_of(theta: pl.DataFrame, fidelity: pl.DataFrame) -> Theta:
    """Theta from its table, with the residuals that the deployment's `fidelity` holds."""
    heldout = fidelity.filter(pl.col("problem").is_null()).row(0, named=True)
    return Theta.from_rows(
        theta.iter_rows(named=True),
        residual_low=heldout["residual_low"],
        residual_high=heldout["residual_high"],
    )


def _row(seed: Row, theta: Theta) -> Row:
    feasible = seed["legality"] == "pass"
    found = price(loads(seed["program_json"]), theta)
    return {
        **{key: seed[key] for key in ("case", "direction", "strategy", "program")},
        "feasible": feasible,
        "reason": seed["reason"] if not feasible else _why_no_price(found),
        **price_columns(found if feasible else None),
        "fingerprint": theta.fingerprint,
    }


def _why_no_price(found: Price) -> str:
    return f"the probes here do not tell {', '.join(found.missing)}" if found.missing else OK


def price_columns(found: Price | None) -> dict[str, float | None]:
    """The columns of a price; all null where there is none."""
    if found is None or found.us is None:
        return dict.fromkeys(("predicted_us", "low_us", "high_us", *(f"{term.value}_us" for term in Term)))
    terms = {f"{term.value}_us": found.terms.get(term) for term in Term}
    return {"predicted_us": found.us, "low_us": found.low_us, "high_us": found.high_us, **terms}
