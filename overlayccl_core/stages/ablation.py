"""ablation: searches side by side, by their finds after each number of evaluations. Needs no ranks."""

import polars as pl

from overlayccl_core.evidence.ablations import arm_rows, curve_rows
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATIONS
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sketches import SKETCHES


def main(job: RuleJob) -> None:
    """Write the tables ablation_curves and ablations."""
    tables = run(job.read_all(SKETCHES), job.read_all(CANDIDATES), job.read_all(CALLS))
    job.write({ABLATION_CURVES: tables["ablation_curves"], ABLATIONS: tables["ablations"]})


def run(sketches: pl.DataFrame, candidates: pl.DataFrame, calls: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of `ablation_curves` and `ablations`, from all searches at all seeds together."""
    fingerprint = one_fingerprint({"candidates": candidates}, f"{snakemake()} --forcerun fit")
    curves = curve_rows(sketches, candidates)
    if curves.is_empty():
        raise ValueError(
            "ablations: no search found a Program with a price: the probes do not tell what the cost model needs"
        )
    arms = arm_rows(curves, candidates, calls)
    of = pl.lit(fingerprint, dtype=pl.String).alias("fingerprint")
    return {"ablation_curves": curves.with_columns(of), "ablations": arms.with_columns(of)}
