"""Rule bench: the Programs of the shortlist."""

from collections.abc import Iterator

from overlayccl_core.archiving.rows import ArchivedJob, Odd, Row, compared, once
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.shortlist import SHORTLIST

CANDIDATE = tuple(column.name for column in CANDIDATE_KEY)


def complete(job: ArchivedJob) -> Iterator[Odd]:
    """Expect exactly the shortlist: each timed, or with a failure."""

    def program(row: Row) -> tuple[str, ...]:
        return (*(row[name] for name in CANDIDATE), row["program"])

    rows = job.rows(BENCH)
    yield from compared(map(program, job.rows(SHORTLIST)), map(program, rows))
    yield from once((*program(row), row["launch"]) for row in rows)
