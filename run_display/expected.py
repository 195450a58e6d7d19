"""How long the jobs of a run are expected to take, before they have begun.

A job is expected to take what it took the last time in its tree (its benchmark file). Where there is none: what the
configuration gives it, with what comes on top of that (`dag/<rule>.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.rule import Budget, rules
from workflow_scripts.phases import seconds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A job that has not begun. share: of the machine that it takes while it runs (1: nothing runs beside it)."""

    name: str
    expected_s: float
    share: float


def name_of(rule: str, wildcards: Mapping[str, Any]) -> str:
    """`bench tp_mlp`: a job in one line."""
    return " ".join([rule, *(str(value) for key, value in wildcards.items() if key != "deployment")])


class Expectations:
    """Seconds by benchmark file, looked up once: a run writes these files anew."""

    def __init__(self, workflow: Any, settings: Any) -> None:
        self._workflow = workflow
        self._settings = settings
        self._seconds: dict[str, float] = {}

    def left(self) -> list[Planned]:
        """The jobs that are in the plan now and have not ended; running ones are among them."""
        dag = self._workflow.dag
        needed = list(dag._needrun)  # private: the version is pinned. A copy: jobs end in other threads
        jobs = [job for job in needed if not dag.finished(job)]
        return [self._planned(job, self._workflow.cores or 1) for job in jobs if not job.is_norun]

    def _planned(self, job: Any, cores: int) -> Planned:
        wildcards = job.wildcards_dict
        alone = "machine" in job.rule.resources
        return Planned(
            name=name_of(job.rule.name, wildcards),
            expected_s=self.seconds(job.rule.name, str(job.rule.benchmark or "").format(**wildcards)),
            share=1.0 if alone else 1.0 / cores,
        )

    def seconds(self, rule: str, benchmark: str) -> float:
        """What a job of a rule should take."""
        if benchmark not in self._seconds:
            self._seconds[benchmark] = _last(Path(benchmark)) or budget_s(rule, self._settings)
        return self._seconds[benchmark]


def budget_s(rule: str, settings: Any) -> float:
    """What the configuration gives a job, with what comes on top."""
    declared = rules().get(rule)  # None: a rule of somebody's own Snakefile
    budget = declared.budget(settings, len(getattr(settings, "models", ()))) if declared else Budget()
    return float(budget.seconds)


def total_left_s(planned: Iterable[Planned], running: Mapping[str, float | None]) -> float:
    """Seconds until all is done, the machine full all the time.

    running: job -> its own seconds left; None (longer than expected) counts nothing, so the sum is a least.
    """
    total = 0.0
    for job in planned:
        own = running.get(job.name, job.expected_s)
        total += (0.0 if own is None else own) * job.share
    return total


def _last(benchmark: Path) -> float | None:
    try:
        return seconds_of(benchmark)
    except (OSError, ValueError):
        return None
