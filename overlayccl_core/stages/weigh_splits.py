"""weigh_splits: step times of models by M, and which M is the best. Needs no ranks."""

import polars as pl

from overlayccl_core.configuration.models import label
from overlayccl_core.evidence.swept import swept_rows, wrong_splits
from overlayccl_core.measuring.arms import arm_label
from overlayccl_core.report.sweep_m import page, sentence
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS, SWEPT_STAMPS, SWEPT_STEPS


def main(job: RuleJob) -> None:
    """Write the table swept_splits, and sweep_m.html."""
    steps, stamps = job.read_all(SWEPT_STEPS), job.read_all(SWEPT_STAMPS)
    again = f"{snakemake()} --forcerun train_splits"
    fingerprint = one_fingerprint({SWEPT_STEPS.name: steps}, again) or ""
    models = steps["model"].unique(maintain_order=True)
    rows = [row for model in models for row in swept_rows(model, steps, stamps, fingerprint)]
    for model in models:
        for (microbatches, arm), why in wrong_splits(model, steps, stamps).items():
            print(f"{label(model, microbatches)}: {arm_label(arm)} is left out: {why}", flush=True)
    frame = pl.DataFrame(rows, schema=SWEPT_SPLITS.schema)
    for (_,), of_model in frame.group_by("model", maintain_order=True):
        print(sentence(of_model), flush=True)  # onto the screen, as the end of a run
    job.write({SWEPT_SPLITS: frame})
    (path,) = job.outputs["page"]
    job.write_text(path, page(frame, job.option("name")))
