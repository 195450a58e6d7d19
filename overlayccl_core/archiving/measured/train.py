"""Rule train: the arms named by finalists, in all launches."""

from collections.abc import Iterator

from overlayccl_core.archiving.rows import ArchivedJob, Odd, launches, stamped
from overlayccl_core.stages import train
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.steps import STAMPS, STEPS


def complete(job: ArchivedJob) -> Iterator[Odd]:
    """Expect the arms named by finalists in every launch until they fail or are left behind."""
    finalists = {name: job.table(FINALISTS, name) for name in job.option("problems").split(",")}
    arms = train.arms_to_train(job.deployment, job.model(job.option("model")), finalists)
    steps = train.steps_of(job.settings)
    rows = job.rows(STEPS)
    yield from launches(arms, rows, steps, job.settings.train.launches, narrows=train.NARROWS)
    yield from stamped(arms, rows, job.rows(STAMPS))
