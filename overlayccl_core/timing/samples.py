"""Samples of a timed launch, finished or cut off, and the rounds still missing in its batch."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from overlayccl_core.backends.measured import Job, TimedProgram
from overlayccl_core.backends.plan import PLAN_FILE, STAMPS_FILE, Calibration, LaunchPlan, finished_visits
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.timing.launch_store import KeptLaunch


def timed_programs(
    work: Path,
    *,
    fingerprint: str,
    oversubscribed: bool,
    foreign_cpu_share: float | None,
    disturbed: bool = False,
) -> list[TimedProgram]:
    """Return the Programs with a finished round in a launch folder; none if its preparation was cut off."""
    prepared = (work / PLAN_FILE).exists() and (work / STAMPS_FILE).exists()
    calibration = Calibration.read(work) if prepared else None
    if calibration is None:
        return []
    plan, told = LaunchPlan.read(work), NodeReport.read(work)
    stamps = np.array(plan.open_stamps(work, "r"))
    timed = []
    for index, job in enumerate(plan.jobs):
        repeats = calibration.repeats[index]
        times, ranks = finished_visits(stamps[:, index], repeats)
        if not times:
            continue
        first = asdict(calibration.first[index]) if calibration.first else {}
        timed.append(
            TimedProgram(
                key=job.key,
                program=job.program,
                launch=plan.launch,
                first_call_us=first.get("us"),
                compile_us=first.get("compile_us"),
                graphs=first.get("graphs"),
                repeats=repeats,
                samples_us=tuple(times),
                slowest_rank=tuple(ranks),
                oversubscribed=oversubscribed,
                foreign_cpu_share=foreign_cpu_share,
                disturbed=disturbed,
                **told.columns,
                fingerprint=fingerprint,
                planned_rounds=calibration.rounds[index],
            )
        )
    return timed


def missing(jobs: Sequence[Job], launches: Sequence[KeptLaunch]) -> dict[str, int | None]:
    """Return the rounds still to take, by job key (None: as many as the budget allows); empty if none.

    A launch that ended by itself is final. After interrupted launches the first one's plan counts.
    """
    if any(launch.complete for launch in launches):
        return {}
    planned: dict[str, int] = {}
    taken: dict[str, int] = {}
    for launch in launches:
        for timed in launch.timed:
            planned.setdefault(timed.key, timed.planned_rounds)
            taken[timed.key] = taken.get(timed.key, 0) + timed.rounds
    rounds_left: dict[str, int | None] = {}
    for job in jobs:
        if job.key not in planned:
            rounds_left[job.key] = job.rounds
        elif (left := planned[job.key] - taken[job.key]) > 0:
            rounds_left[job.key] = max(left, 2)  # one round alone has no repeat
    racing = [job.key for job in jobs if job.races and rounds_left.get(job.key)]
    most = max((rounds_left[key] or 0 for key in racing), default=0)
    return rounds_left | dict.fromkeys(racing, most)  # racing Programs are compared in the same rounds
