"""Tables of timings made from a known theta, for tests of what is computed from them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.program import Program
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.table import Table
from overlayccl_core.tables.timing_columns import TIMING_COLUMNS
from tests.rows import row

FINGERPRINT = "host test, torch 2.13.0, ranks 4 #00000000"


def true_us(found: Features) -> float:
    """What a call takes: costs of the size that CPU ranks have, by the unit of each column."""
    each = {"us": 20.0, "us/B": 1e-3, "us/run": 1e-3, "us/multiplication": 1e-4}
    collectives = {"all_reduce": 4000.0, "all_gather": 3000.0, "reduce_scatter": 4500.0, "all_to_all": 1200.0}
    total = 0.0
    for column, amount in found.items():
        kind, _, rest = column.name.partition(".")
        cost = each[column.unit]
        if column.unit == "us" and rest.endswith(("alone.count", "together.count")):
            cost = collectives.get(kind, 700.0) * (0.5 if "together" in rest else 1.0)
        total += amount * cost if not column.increment else 0.0
    return total


def timing_columns(
    program: Program, *, us: float | None = None, noise: float = 0.05, rounds: int = 12, launch: int = 0
) -> dict[str, Any]:
    """One row's timing columns; `us`: the time, where it is not what the Program should take."""
    seed = int(program.digest[:8], 16)
    middle = true_us(features(program)) if us is None else us
    samples = middle * np.exp(noise * np.random.default_rng([seed, launch]).normal(size=rounds))
    return row(
        Table(name="timings", version=1, columns=TIMING_COLUMNS),
        program=program.digest,
        program_json=dumps(program),
        launch=launch,
        first_call_us=3 * middle,
        compile_us=0.0,
        graphs=0,
        repeats=1,
        samples_us=samples.tolist(),
        slowest_rank=[0] * rounds,
        rounds=rounds,
        oversubscribed=True,
        foreign_cpu_share=0.01,
        fingerprint=FINGERPRINT,
    )


def bench_rows(listed: Iterable[Mapping[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    """Rows of `bench` for the rows of a shortlist."""
    return [
        row(
            BENCH,
            **{key: one[key] for key in ("case", "direction", "candidate")},
            **timing_columns(loads(one["program_json"]), **changes),
        )
        for one in listed
    ]
