"""price: the cost model's price of every known way, by term. Needs no ranks."""

from collections.abc import Callable
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.costmodel.price import Price, price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.prices import price_columns, theta_of
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.known_ways import KNOWN_WAYS, WayStatus
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table prices of one Problem."""
    deployment = load(job.option("deployment"))
    rows = run(deployment, job.read(KNOWN_WAYS), job.read(THETA), job.read(FIDELITY), progress=job.say)
    job.write({PRICES: rows})


def run(
    deployment: Deployment,
    ways: pl.DataFrame,
    theta: pl.DataFrame,
    fidelity: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `prices`: one for every known way with a Program."""
    one_fingerprint({"theta": theta, "fidelity": fidelity}, f"{snakemake()} --forcerun fit")
    costs = theta_of(theta, fidelity)
    programs = ways.filter(pl.col("status") == WayStatus.PROGRAM)
    rows = [_row(way, costs) for way in programs.iter_rows(named=True)]
    without = sum(row["predicted_us"] is None for row in rows)
    progress(f"{deployment.name}: {len(rows)} prices" + (f", {without} without a value" if without else ""))
    return rows


def _row(way: Row, theta: Theta) -> Row:
    feasible = way["legality"] == Outcome.PASS
    priced = price(loads(way["program_json"]), theta)
    return {
        **{key: way[key] for key in ("case", "direction", "strategy", "program")},
        "feasible": feasible,
        "reason": way["reason"] if not feasible else _why_no_price(priced),
        **price_columns(priced if feasible else None),
        "fingerprint": theta.fingerprint,
    }


def _why_no_price(priced: Price) -> str:
    return f"the probes here do not tell {', '.join(priced.missing)}" if priced.missing else Reason.OK
