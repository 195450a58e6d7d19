"""compare: how right the model was about the seeds of one Problem, Case by Case. Needs no ranks."""

from collections.abc import Callable
from typing import Any

import polars as pl

from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.measurements import measurements
from overlayccl_core.tables.fingerprints import one_fingerprint

Row = dict[str, Any]


def run(
    seeds: pl.DataFrame, prices: pl.DataFrame, bench: pl.DataFrame, *, progress: Callable[[str], None]
) -> dict[str, list[Row]]:
    """The rows of the Problem's `fidelity`: one for each Case of which something was priced and measured."""
    fingerprint = one_fingerprint(
        {"prices": prices, "bench": bench}, "snakemake --profile local --forcerun probe bench"
    )
    rows = []
    for case in seeds["case"].unique(maintain_order=True):
        measured = measurements(bench.filter(pl.col("case") == case).iter_rows(named=True))
        forward = (pl.col("case") == case) & (pl.col("direction") == "forward")
        priced = prices.filter(forward & pl.col("predicted_us").is_not_null()).unique("program")
        scored = [
            Scored(predicted_us=row["predicted_us"], samples_us=measured[row["program"]].samples_us)
            for row in priced.sort("strategy").iter_rows(named=True)
            if row["program"] in measured
        ]
        if not scored:
            progress(f"{case}: nothing was both priced and measured")
            continue
        figures = fidelity(scored)
        noise = ", within noise" if figures.top1_within_noise else ""
        progress(
            f"{case}: {figures.n} Programs, median error {figures.median_rel_error:.1%} (repeat "
            f"{figures.repeat_rel_error:.1%}), first choice {figures.top1_regret:.1%} above the best{noise}"
        )
        problem = case.partition("/")[0]
        rows.append({"problem": problem, "case": case, **figures.to_row(), "fingerprint": fingerprint})
    return {"fidelity": rows}
