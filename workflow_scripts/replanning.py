"""A job that was planned for the sake of another is left out with it.

Snakemake makes its plan anew after each checkpoint, but keeps why each job was to run. A job whose input was to be
made by a job that is now left out would still run. Here each such reason goes before the plan is made; where the
other job is still to come, Snakemake finds the reason again. Partly private to Snakemake: its version is pinned.
"""

from typing import Any

from snakemake.dag import DAG

SNAKEMAKES = DAG.update_needrun


def forget_what_was_to_come() -> None:
    """Let every plan of this process be made so."""
    DAG.update_needrun = update_needrun


async def update_needrun(dag: Any, *arguments: Any, **options: Any) -> None:
    """Snakemake's own, after each waiting job has kept of its reasons only the files that jobs have made."""
    for job in dag.jobs:
        if not (dag.finished(job) or dag.is_running(job)):
            made = (files for other, files in dag.dependencies[job].items() if dag.finished(other))
            dag.reason(job).updated_input_run.intersection_update(set().union(*made))
    await SNAKEMAKES(dag, *arguments, **options)
