"""summary: per Case and strategy what was proven, predicted and measured, and if the time can be true."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.deployments.deployment import Deployment
from overlayccl_core.deployments.floor import Floor, floor_from_probes
from overlayccl_core.measurements import Measurement, measurements
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.program import Program
from overlayccl_core.tables.fingerprints import one_fingerprint

Row = dict[str, Any]
_NUMBERS = (
    *("predicted_us", "predicted_low_us", "predicted_high_us"),
    *("measured_us", "measured_low_us", "measured_high_us"),
    *("speedup", "speedup_low", "speedup_high", "repeat_rel_error"),
    *("algbw_gbps", "busbw_gbps", "floor_us"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemTables:
    """The tables of one Problem."""

    seeds: pl.DataFrame
    prices: pl.DataFrame
    bench: pl.DataFrame
    fidelity: pl.DataFrame


def run(
    deployment: Deployment,
    problems: Mapping[str, ProblemTables],
    probes: pl.DataFrame,
    fidelity: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """The rows of `summary`: forward strategies, the developer's first in each Case."""
    frames: dict[str | Path, pl.DataFrame] = {"probes": probes, "fidelity": fidelity}
    frames |= {f"{name}: bench": tables.bench for name, tables in problems.items()}
    one_fingerprint(frames, "snakemake --profile local --forcerun probe bench")
    floor = floor_of(probes)
    rows = [row for tables in problems.values() for row in _problem_rows(tables, floor)]
    invalid = [f"{row['case']} {row['strategy']}" for row in rows if row["validity"] == "invalid"]
    progress(f"{deployment.name}: {len(rows)} strategies of {len(problems)} problems")
    if invalid:
        progress(f"below the physical floor, so no result: {', '.join(invalid)}")
    if any(row["disturbed"] for row in rows):
        progress("others took CPU time while strategies ran: measure again on a quiet machine")
    return {"summary": rows}


def floor_of(probes: pl.DataFrame) -> Floor:
    """The physical floor of a deployment, from its structured probes."""
    structured = probes.filter(pl.col("role") == "structured")
    measured = measurements(structured.iter_rows(named=True))
    once = structured.unique("program", keep="first", maintain_order=True)
    return floor_from_probes(
        (loads(row["program_json"]), measured[row["program"]].estimate.value)
        for row in once.iter_rows(named=True)
        if row["program"] in measured
    )


def _problem_rows(tables: ProblemTables, floor: Floor) -> list[Row]:
    rows = []
    forward = tables.seeds.filter(pl.col("direction") == "forward")
    for case in forward["case"].unique(maintain_order=True):
        seeds = list(forward.filter(pl.col("case") == case).iter_rows(named=True))
        prices = {
            row["strategy"]: row
            for row in tables.prices.filter(
                (pl.col("case") == case) & (pl.col("direction") == "forward")
            ).iter_rows(named=True)
        }
        measured = measurements(tables.bench.filter(pl.col("case") == case).iter_rows(named=True))
        developer = next((measured.get(s["program"]) for s in seeds if s["role"] == "developer"), None)
        rows += [
            _row(seed, prices.get(seed["strategy"]), measured.get(seed["program"]), developer, floor)
            for seed in seeds
        ]
    return rows


def _row(
    seed: Row, priced: Row | None, timed: Measurement | None, developer: Measurement | None, floor: Floor
) -> Row:
    row: Row = {
        "problem": seed["case"].partition("/")[0],
        **{key: seed[key] for key in ("case", "strategy", "role", "status", "numerics")},
        "proof": seed["equivalence"] or seed["reason"],
        **dict.fromkeys(_NUMBERS),
        "validity": "unmeasured",
        "disturbed": None,
        "fingerprint": None,
    }
    if priced is not None:
        row["predicted_us"] = priced["predicted_us"]
        row["predicted_low_us"] = priced["low_us"]
        row["predicted_high_us"] = priced["high_us"]
    if seed["program_json"] is not None and timed is not None:
        row |= measured_columns(loads(seed["program_json"]), timed, developer, floor)
        row |= {"disturbed": timed.disturbed, "fingerprint": timed.fingerprint}
    return row


def measured_columns(
    program: Program, timed: Measurement, developer: Measurement | None, floor: Floor | None
) -> Row:
    """What a measurement says of a Program. An invalid time has no speed-up: it is never a win."""
    estimate, floor_us = timed.estimate, floor.us(program) if floor else None
    low, high = estimate.interval()
    valid = floor_us is None or estimate.value >= floor_us
    ratio = timed.speedup_over(developer) if developer and valid else None
    return {
        "measured_us": estimate.value,
        "measured_low_us": low,
        "measured_high_us": high,
        "repeat_rel_error": timed.repeat_error,
        "floor_us": floor_us,
        "validity": "valid" if valid else "invalid",
        "speedup": ratio.value if ratio else None,
        "speedup_low": ratio.low if ratio else None,
        "speedup_high": ratio.high if ratio else None,
        **_bandwidths(program.problem.case, estimate.value),
    }


def _bandwidths(case: Case, us: float) -> Row:
    """algbw: the Case's payload over the time; busbw: times its operation's factor. 1 B/us = 1e-3 GB/s."""
    algbw = catalog.payload_bytes(case) / us / 1e3
    return {"algbw_gbps": algbw, "busbw_gbps": algbw * catalog.bus_factor(case)}
