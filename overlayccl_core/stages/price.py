"""price: what the cost model says of every seed, by term. Needs no ranks."""

from collections.abc import Callable
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.costmodel.price import Price, price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.prices import price_columns, theta_of
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
