"""cases: the Cases of one Problem at one deployment. Needs no ranks, no tracing."""

import json
from collections.abc import Callable
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.program.case import Case
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write the table cases of one Problem."""
    rows = run(
        Settings.from_part(job.option("settings")),
        load(job.option("deployment")),
        job.problem,
        progress=job.say,
    )
    job.write({CASES: rows})


def run(
    settings: Settings, deployment: Deployment, problem: str, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return the rows of `cases`."""
    cases = cases_of(settings, deployment, problem)
    progress(f"{problem}: {len(cases)} Cases: {', '.join(c.id for c in cases)}")
    return [row(case) for case in cases]


def row(case: Case) -> dict[str, Any]:
    """Return the row of a Case."""
    data = case.to_json()
    return {
        "case": case.id,
        **{k: data[k] for k in ("problem", "ranks", "groups", "strided", "ranks_per_node", "dtype")},
        "uniform": case.uniform,
        "parameters": json.dumps(data["parameters"], sort_keys=True),
        "payload_bytes": catalog.payload_bytes(case),
    }
