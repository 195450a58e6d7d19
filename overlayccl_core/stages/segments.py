"""segments: the times of a model's segments, on real ranks without any call of the library."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.program.program import Program
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.segment_times import time_segments

STEPS = 9  # of each kind, after the cold ones
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table segments of one model."""
    name = job.option("model")
    rows = run(
        load(job.option("deployment")),
        load_model(name),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({SEGMENTS: rows})
    forget(job.partial, batch_name(name), job.all_outputs)


def run(
    deployment: Deployment,
    model: Model,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `segments`; none if ranks compile: there a step has no order of its own."""
    if deployment.uniform:
        return []
    programs = {m: references_of(model, deployment, m) for m in model.microbatches}
    return time_segments(
        *(model, deployment, programs, STEPS, partial_dir, batch_name(model.name)),
        code=code,
        progress=progress,
    )


def references_of(model: Model, deployment: Deployment, microbatches: int) -> dict[str, Program]:
    """Return site -> its Problem's reference: nothing that is found or measured decides what is timed."""
    cases = cases_of_model(model, deployment, microbatches)
    return {
        site.name: catalog.reference_program(catalog.in_direction(cases[site.name], site.direction))
        for site in sites_of(model, microbatches, deployment.ranks)
    }


def batch_name(model: str) -> str:
    """Return the prefix of a model's launch folders."""
    return f"segments-{model}"
