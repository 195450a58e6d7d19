"""`overlayccl verify`: check an archive of a run: bytes, tables, proofs, and all that follows from its samples.

Check an archive without any measuring. Every digest is looked at, every table, every proof; and what needs no
ranks is made again from the samples in the archive, and compared. What the archive holds of code is not run: it is
this release that checks.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from overlayccl_core.archiving.findings import MEANING, Check, CheckOutcome, Finding
from overlayccl_core.cli.render import console, plain_table, print_line, say

SHOWN = 20  # findings of a kind shown one by one


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="results/<deployment>.tar.zst")
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="jobs at a time (default: as many as there are cores)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if nothing is wrong, else 1. ValueError: there is no such file."""
    wrong, _ = told(arguments.archive, arguments.workers)
    return 1 if wrong else 0


def told(archive: Path, workers: int) -> tuple[int, str]:
    """Verify an archive and print the findings; return (number of wrong things, last line).

    Raises:
        ValueError: There is no such file.
    """
    # Half a second of imports: only this command should pay.
    from overlayccl_core.archiving.verify import verify

    if not archive.is_file():
        raise ValueError(f"{archive}: there is no such file: `snakemake --profile local archive` makes one")
    began = time.monotonic()
    found = []
    for one in verify(archive, workers, say):
        found.append(one)
        if one.outcome is CheckOutcome.WRONG:
            say(f"{one.outcome.value}: {one.check.value}: {one.subject}: {one.message}")
    console().print(_counts(found))
    for outcome in (CheckOutcome.WRONG, CheckOutcome.WITHIN, CheckOutcome.COULD_NOT):
        for line in _told(found, outcome):
            print_line(line)
    wrong = sum(one.outcome is CheckOutcome.WRONG for one in found)
    verdict = _verdict(found, wrong)
    last = f"{archive.name}: {verdict} ({time.monotonic() - began:.0f} s)"
    print_line(last)
    return wrong, last


def _verdict(found: Sequence[Finding], wrong: int) -> str:
    """Return the verdict of the last line."""
    others = sum(one.outcome is not CheckOutcome.EXACT for one in found if one.check is Check.CODE)
    unseen = sum(one.outcome is CheckOutcome.COULD_NOT and one.check is not Check.MEASURED for one in found)
    said = f"{_are(wrong, 'thing')} wrong" if wrong else "nothing is wrong"
    if others:
        said += f"; {_are(others, 'file')} not as in this release: read before you run"
    return said + (f"; {unseen} could not be looked at" if unseen else "")


def _are(count: int, what: str) -> str:
    return f"1 {what} is" if count == 1 else f"{count} {what}s are"


def _counts(found: Sequence[Finding]) -> Table:
    headers = ("looked at", *(f">{outcome.value}" for outcome in CheckOutcome), "what it says")
    table = plain_table(None, *headers, fold=headers)
    for check in Check:
        of = Counter(one.outcome for one in found if one.check is check)
        table.add_row(check.value, *(str(of[outcome] or "-") for outcome in CheckOutcome), MEANING[check])
    return table


def _told(found: Sequence[Finding], outcome: CheckOutcome) -> list[str]:
    """Return the findings of one outcome, with equal words in one line; measurements are only counted.

    Code, and files made by no job, are named one by one, for reading.
    """
    those: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if one.outcome is outcome and one.check is not Check.MEASURED:
            those.setdefault((one.check.value, one.message), []).append(one.subject)
    lines = []
    for (check, message), subjects in those.items():
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        named = ", ".join(subjects) if check in (Check.CODE, Check.FILES) else f"{subjects[0]}{more}"
        lines.append(f"{outcome.value}: {check}: {named}: {message}")
    return [*lines[:SHOWN], f"{outcome.value}: {len(lines) - SHOWN} more"] if len(lines) > SHOWN else lines
