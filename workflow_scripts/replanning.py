"""Plans by present files: by unchanged tables, and by modules in deploy/.

A job planned for the sake of another is left out with it. After each checkpoint Snakemake plans anew but keeps
every job's reasons. So a job would still run for an input from a job now left out. Here each such reason goes
before the plan is made; if the other job is still to come, Snakemake finds the reason again.

A module in deploy/ is no output (`tables.published`). A module unlike its confirmed form is a missing output of its
job, in every plan, even in one without a run. Partly private to Snakemake: its version is pinned.
"""

from pathlib import Path
from typing import Any

from snakemake.dag import DAG

from overlayccl_core.tables.published import not_as_confirmed

SNAKEMAKES = DAG.update_needrun


def plan_by_what_is_there() -> None:
    """Make every plan of this process so."""
    DAG.update_needrun = update_needrun


async def update_needrun(dag: Any, *arguments: Any, **options: Any) -> None:
    """Run Snakemake's own function after correcting the reasons of each waiting job.

    Of updated inputs only files made by finished jobs stay; each module unlike its record becomes a missing output.
    """
    for job in dag.jobs:
        if not (dag.finished(job) or dag.is_running(job)):
            made = (files for other, files in dag.dependencies[job].items() if dag.finished(other))
            dag.reason(job).updated_input_run.intersection_update(set().union(*made))
            lacking = set(map(str, not_as_confirmed(map(Path, job.output))))
            if lacking:
                dag.reason(job).missing_output.update(lacking)
    await SNAKEMAKES(dag, *arguments, **options)
