"""Rule confirm: everything to be timed after the choice."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from overlayccl_core.archiving.rows import ArchivedJob, Odd, compared, launches, once, stamped
from overlayccl_core.evidence.choices import ProblemChoice, Trained
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.stages import confirm
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS


def complete(job: ArchivedJob) -> Iterator[Odd]:
    """Expect the deployed arms and those beside them, in every launch of every model."""
    decided = job.decided()
    yield from _alone(job, decided)
    timed, stamps = job.rows(CONFIRMED_STEPS), job.rows(CONFIRMED_STAMPS)
    steps = confirm.steps_of(job.settings.confirm)
    asked: list[str] = [str(name) for name in json.loads(job.option("models"))]
    for name in asked:
        before = Trained(steps=job.table(STEPS, name), stamps=job.table(STAMPS, name))
        arms = confirm.arms_beside(job.deployment, decided, job.model(name), before)
        rows = [row for row in timed if row["model"] == name]
        yield from launches(arms, rows, steps, job.settings.confirm.launches, narrows=False)
        yield from stamped(arms, rows, [row for row in stamps if row["model"] == name])
    others = {row["model"] for row in (*timed, *stamps)} - set(asked)
    yield from (Odd(message=f"{name}: no such model was asked for") for name in sorted(others))


def _alone(job: ArchivedJob, decided: Mapping[str, ProblemChoice]) -> Iterator[Odd]:
    """Expect Cases outside all models, timed alone in every launch; arms that fail before timing have no row."""
    wanted: dict[tuple[str, ...], str] = {}
    for problem, one in decided.items():
        for row, alone in confirm.looked_at(one):
            if alone:
                wanted[problem, *(str(row[name]) for name in (*confirm.HEAD, "program"))] = row["arm"]
    rows = job.rows(CONFIRMED)
    columns = ("problem", *confirm.HEAD, "program")
    seen = Counter(tuple(row[name] for name in columns) for row in rows)
    launches = job.settings.confirm.launches
    yield from compared(set(), seen.keys() - wanted.keys())
    yield from once((*(row[name] for name in columns), row["launch"]) for row in rows)
    for program, arm in wanted.items():
        where = " ".join(program[1:])
        if 0 < seen[program] < launches:
            yield Odd(message=f"{where}: {seen[program]} launches, where {launches} were asked for")
        elif not seen[program]:
            may_fail = arm not in (ArmName.DEPLOYED, ArmName.DEVELOPER)  # without these nothing is confirmed
            yield Odd(message=f"{where}: it was not timed; what fails before has no row", open=may_fail)
