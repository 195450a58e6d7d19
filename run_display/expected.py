"""Expected times of a run's jobs, before they begin.

A job is expected to take as long as last time in its tree (`logs/<job>.attempts`). Without a last time, or if an
attempt has failed since, it is the configured time plus overhead (`dag/<rule>.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.rule import Budget, rules
from overlayccl_core.tables import attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """A job in the plan; `share` is the part of the machine it takes while it runs (1: nothing runs beside it)."""

    name: str
    expected_s: float
    share: float


def name_of(rule: str, wildcards: Mapping[str, Any]) -> str:
    """Name a job: `bench tp_mlp`."""
    return " ".join([rule, *(str(value) for key, value in wildcards.items() if key != "deployment")])


class Expectations:
    """Seconds by log, looked up once: a run overwrites what is beside it."""

    def __init__(self, workflow: Any, settings: Any) -> None:
        self._workflow = workflow
        self._settings = settings
        self._seconds: dict[tuple[str, str], float] = {}

    def left(self) -> list[ExpectedJob]:
        """Return the planned jobs not yet ended, with the running ones."""
        dag = self._workflow.dag
        needed = list(dag._needrun)  # private: the version is pinned. A copy: jobs end in other threads
        jobs = [job for job in needed if not dag.finished(job)]
        return [self._planned(job, self._workflow.cores or 1) for job in jobs if not job.is_norun]

    def _planned(self, job: Any, cores: int) -> ExpectedJob:
        wildcards = job.wildcards_dict
        alone = "machine" in job.rule.resources
        return ExpectedJob(
            name=name_of(job.rule.name, wildcards),
            expected_s=self.seconds(job.rule.name, [str(log).format(**wildcards) for log in job.rule.log]),
            share=1.0 if alone else 1.0 / cores,
        )

    def seconds(self, rule: str, logs: Sequence[str]) -> float:
        """Return the expected seconds of a job. logs: at most one of ours; a user's own rule may have none."""
        job = rule, "".join(logs[:1])
        if job not in self._seconds:
            last_s = attempts.made_s(attempts.file_of(Path(job[1]))) if logs else None
            self._seconds[job] = last_s or budget_s(rule, self._settings)
        return self._seconds[job]


def budget_s(rule: str, settings: Any) -> float:
    """Return a job's configured seconds, with overhead."""
    declared = rules().get(rule)  # None: a rule of a user's own Snakefile
    budget = declared.budget_of(settings, len(getattr(settings, "models", ()))) if declared else Budget()
    return float(budget.seconds)


def total_left_s(planned: Iterable[ExpectedJob], running: Mapping[str, float | None]) -> float:
    """Return the seconds until all is done, on a machine always full.

    Args:
        running: Job -> its own seconds left; None (overdue) counts as 0, so the sum is a lower bound.
    """
    total = 0.0
    for job in planned:
        own = running.get(job.name, job.expected_s)
        total += (0.0 if own is None else own) * job.share
    return total
