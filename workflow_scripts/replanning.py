"""Plans by what is there: of tables that came out equal, and of modules in deploy/.

A job that was planned for the sake of another is left out with it.
Snakemake makes its plan anew after each checkpoint, but keeps why each job was to run. A job whose input was to be
made by a job that is now left out would still run. Here each such reason goes before the plan is made; where the
other job is still to come, Snakemake finds the reason again.

A module in deploy/ is no output (`tables.published`). One that is not what was confirmed is a missing output of its
job, in every plan: also in one that starts nothing. Partly private to Snakemake: its version is pinned.
"""

from pathlib import Path
from typing import Any

from snakemake.dag import DAG

from overlayccl_core.tables.published import not_as_confirmed

SNAKEMAKES = DAG.update_needrun


def plan_by_what_is_there() -> None:
    """Let every plan of this process be made so."""
    DAG.update_needrun = update_needrun


async def update_needrun(dag: Any, *arguments: Any, **options: Any) -> None:
    """Snakemake's own, after each waiting job has kept of its reasons only the files that jobs have made.

    And after it lacks each module that is not as its output tells.
    """
    for job in dag.jobs:
        if not (dag.finished(job) or dag.is_running(job)):
            made = (files for other, files in dag.dependencies[job].items() if dag.finished(other))
            dag.reason(job).updated_input_run.intersection_update(set().union(*made))
            lacking = set(map(str, not_as_confirmed(map(Path, job.output))))
            if lacking:
                dag.reason(job).missing_output.update(lacking)
    await SNAKEMAKES(dag, *arguments, **options)
