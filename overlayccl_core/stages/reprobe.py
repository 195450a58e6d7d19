"""reprobe: time some probes again, and tell whether theta still holds and which choices would change.

It reads the run's tables from its folder and writes into a folder of its own: nothing that stands is made again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.drift import Stored, choices_after, drift_of, probes_to_time
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.probe_timings import time_probes
from overlayccl_core.program.json_form import loads
from overlayccl_core.report.drift import lines
from overlayccl_core.tables.drift import DRIFT, DRIFTED_CHOICES, REPROBES
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import run_command
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import forget

BATCH_NAME = "reprobe"
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables reprobes, drift and drifted_choices."""
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        Path(job.option("tree")),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({table: tables[table.name] for table in (REPROBES, DRIFT, DRIFTED_CHOICES)})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    tree: Path,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `reprobes`, `drift` and `drifted_choices`.

    tree: the run's folder. Launches of an interrupted job are of another time, so they are not used.
    """
    stored, section = Stored.read(tree), settings.drift
    listed = probes_to_time(stored, of_a_kind=section.probes_of_a_kind, mixed=section.mixed)
    probes = [
        Probe(name=row["probe"], role=ProbeRole(row["role"]), program=loads(row["program_json"]))
        for row in listed
    ]
    forget(partial_dir, BATCH_NAME, ())
    timing = settings.probe.changed(
        seconds=section.seconds,
        minimum_rounds=settings.probe.rounds_of_fitted,
        rounds_of_fitted=settings.probe.maximum_rounds,
    )
    reprobes = time_probes(
        *(probes, deployment, timing, partial_dir), batch_name=BATCH_NAME, code=code, progress=progress
    )
    frame = pl.DataFrame(reprobes, schema=REPROBES.schema)
    one_fingerprint({"probes": stored.probes, "reprobes": frame}, run_command(tree))
    rows, drift = drift_of(stored, frame)
    choices = list(choices_after(stored, drift))
    told = pl.DataFrame(rows, schema=DRIFT.schema), pl.DataFrame(choices, schema=DRIFTED_CHOICES.schema)
    for line in lines(*told, tree):
        progress(line)  # into the log
        print(line, flush=True)  # onto the screen, as the end of a run
    return {"reprobes": reprobes, "drift": rows, "drifted_choices": choices}
