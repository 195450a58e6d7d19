"""Keep Snakemake from taking CPU time from the ranks that a job measures: a launch was disturbed by its own run.

Partly private to Snakemake: its version is pinned.
"""

from typing import Any

from snakemake import benchmark
from snakemake.scheduling.job_scheduler import JobScheduler

NEVER_S = 1e6
SNAKEMAKES = JobScheduler.__init__


def be_quiet() -> None:
    """Have Snakemake do nothing while jobs of this process run.

    By default it reads the memory maps of a job's processes, every half second for its first 15 s: for columns of a
    `benchmark` file that nobody reads here. And for a limit of jobs a second, which no run of ours comes near, it
    solves the plan of all ready jobs anew, once a second for every job that has ended. Both together took up to
    10 % of two cores.
    """
    benchmark.BENCHMARK_INTERVAL_SHORT = NEVER_S
    JobScheduler.__init__ = _without_limit


def _without_limit(scheduler: Any, *arguments: Any, **options: Any) -> None:
    SNAKEMAKES(scheduler, *arguments, **options)
    scheduler.job_rate_limiter = None
