"""ablation: searches side by side, by their finds after each number of evaluations. Needs no ranks."""

import polars as pl

from overlayccl_core.evidence.ablations import arm_rows, curve_rows, place_rows
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATION_PLACES, ABLATIONS
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sidecar import seconds_of
from overlayccl_core.tables.sketches import SKETCHES


def main(job: RuleJob) -> None:
    """Write the tables ablation_curves, ablation_places and ablations."""
    seconds = [(path.parent.name, seconds_of(path)) for path in job.inputs[CANDIDATES.name]]
    tables = run(
        job.read_all(SKETCHES),
        job.read_all(CANDIDATES),
        job.read_all(CALLS),
        pl.DataFrame(seconds, schema={"search": pl.String, "seconds": pl.Float64}, orient="row"),
    )
    job.write({table: tables[table.name] for table in (ABLATION_CURVES, ABLATION_PLACES, ABLATIONS)})


def run(
    sketches: pl.DataFrame, candidates: pl.DataFrame, calls: pl.DataFrame, seconds: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Return the rows of the tables, from all searches at all seeds together.

    Args:
        seconds: `search` and `seconds` of each job.
    """
    fingerprint = one_fingerprint({"candidates": candidates}, f"{snakemake()} --forcerun fit")
    curves = curve_rows(sketches, candidates)
    if curves.is_empty():
        raise ValueError(
            "ablations: no search found a Program with a price: the probes do not tell what the cost model needs"
        )
    rows = {
        ABLATION_CURVES: curves,
        ABLATION_PLACES: place_rows(curves),
        ABLATIONS: arm_rows(curves, candidates, calls, seconds),
    }
    of = pl.lit(fingerprint, dtype=pl.String).alias("fingerprint")
    return {table.name: of_table.with_columns(of) for table, of_table in rows.items()}
