"""Keep Snakemake from taking CPU time from the ranks that a job measures: a launch was disturbed by its own run.

Partly private to Snakemake: its version is pinned.
"""

from typing import Any

from snakemake.scheduling.job_scheduler import JobScheduler

SNAKEMAKES = JobScheduler.__init__


def be_quiet() -> None:
    """Have Snakemake do nothing while jobs of this process run.

    For a limit of jobs a second, which no run of ours comes near, it solves the plan of all ready jobs anew, once a
    second for every job that has ended. This and the directive `benchmark`, for which it reads the memory maps of a
    job's processes twice a second, took up to 10 % of two cores: no rule of ours has a `benchmark`, as a job tells
    itself what it took (`logs/<job>.attempts`).
    """
    JobScheduler.__init__ = _without_limit


def _without_limit(scheduler: Any, *arguments: Any, **options: Any) -> None:
    SNAKEMAKES(scheduler, *arguments, **options)
    scheduler.job_rate_limiter = None
