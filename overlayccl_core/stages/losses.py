"""losses: the losses of all long courses in one table, whether each arm trains like the developer's, and a page."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from overlayccl_core.evidence.choices import arm_rows
from overlayccl_core.evidence.curves import curve_rows, loss_rows
from overlayccl_core.report.curves import page, sentences
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.longrun import CURVES, LONG_STAMPS, LONG_STEPS, LOSSES
from overlayccl_core.tables.rule_job import RuleJob

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables losses and curves, and the page."""
    arms = [
        row
        for problem in job.problems
        for row in arm_rows(job.read(FINALISTS, problem), job.read(CHOICE, problem))
    ]
    tables = run(job.read_all(LONG_STEPS), job.read_all(LONG_STAMPS), arms)
    job.write({LOSSES: tables["losses"], CURVES: tables["curves"]})
    losses, curves = (pl.DataFrame(tables[one.name], schema=one.schema) for one in (LOSSES, CURVES))
    for said in sentences(losses, curves):
        job.say(said)
        print(said, flush=True)  # onto the screen, as the end of a run
    (path,) = job.outputs["page"]
    job.write_text(path, page(losses, curves, job.option("name")))


def run(steps: pl.DataFrame, stamps: pl.DataFrame, arms: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of `losses` and `curves`.

    Args:
        steps, stamps: Of the long courses of all models.
        arms: Rows of `finalists`, and of other arms, with the Programs of each.

    Raises:
        ValueError: There are no courses: no model is configured.
    """
    if steps.is_empty():
        raise ValueError(
            "longrun: no model is configured, so nothing is trained: name some, --config models=nano"
        )
    one_fingerprint({"long_steps": steps}, "the rule longtrain")
    return {"losses": list(loss_rows(steps)), "curves": curve_rows(steps, stamps, arms)}
