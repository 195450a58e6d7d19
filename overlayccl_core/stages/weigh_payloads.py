"""weigh_payloads: what is fastest at each payload, and whether it beats the library's own call. Needs no ranks."""

import polars as pl

from overlayccl_core.report.payloads import page, sentence
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES, TIMED_PAYLOADS
from overlayccl_core.tuning.payloads import payload_rows


def main(job: RuleJob) -> None:
    """Write the table payload_times, and sweep_payload.html."""
    timed = job.read(TIMED_PAYLOADS)
    again = f"{snakemake()} --forcerun time_payloads"
    rows = payload_rows(timed, one_fingerprint({TIMED_PAYLOADS.name: timed}, again) or "")
    frame = pl.DataFrame(rows, schema=PAYLOAD_TIMES.schema)
    print(sentence(frame), flush=True)  # onto the screen, as the end of a run
    job.write({PAYLOAD_TIMES: frame})
    (path,) = job.outputs["page"]
    job.write_text(path, page(frame, job.option("name")))
