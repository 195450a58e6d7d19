"""What `overlayccl verify` says last of what it found."""

import pytest

from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding
from overlayccl_core.cli.verify import _told, _verdict


def found(check: Check, outcome: CheckOutcome, *subjects: str) -> list[Finding]:
    return [Finding(check=check, subject=one, outcome=outcome, message="why") for one in subjects]


OK = found(Check.TABLES, CheckOutcome.EXACT, "theta.parquet")
CODE = found(Check.CODE, CheckOutcome.WITHIN, "Snakefile", "config/searches/command.yaml", "envs/local.yaml")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "nothing is wrong"),
        (found(Check.TABLES, CheckOutcome.WRONG, "a"), "1 thing is wrong"),
        (found(Check.TABLES, CheckOutcome.WRONG, "a", "b"), "2 things are wrong"),
        (found(Check.MEASURED, CheckOutcome.COULD_NOT, "bench"), "nothing is wrong"),
        (found(Check.FILES, CheckOutcome.COULD_NOT, "a"), "nothing is wrong; 1 could not be looked at"),
        (CODE[:1], "nothing is wrong; 1 file is not as in this release: read before you run"),
        (CODE, "nothing is wrong; 3 files are not as in this release: read before you run"),
    ],
)
def test_the_last_line(more: list[Finding], said: str) -> None:
    whole = [*OK, *more]
    assert _verdict(whole, sum(one.outcome is CheckOutcome.WRONG for one in whole)) == said


def test_files_that_somebody_is_to_read_are_named_one_by_one() -> None:
    (line,) = _told([*OK, *CODE], CheckOutcome.WITHIN)
    assert all(one.subject in line for one in CODE)
    (line,) = _told(found(Check.PROOFS, CheckOutcome.WRONG, "a", "b", "c"), CheckOutcome.WRONG)
    assert line == "refuted: proofs: a and 2 more: why"
