"""Findings of the verification of an archive."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class CheckOutcome(StrEnum):
    """Result for one subject."""

    EXACT = "exact"
    WITHIN = "within tolerance"
    COULD_NOT = "could not"
    WRONG = "refuted"


class Check(StrEnum):
    """Kinds of checks."""

    BYTES = "bytes"
    MANIFEST = "manifest"
    TABLES = "tables"
    CONFIGURATION = "configuration"
    FILES = "files"
    CODE = "code"
    COMPLETE = "complete"
    CONSISTENT = "consistent"
    PROOFS = "proofs"
    MADE_AGAIN = "made again"
    MEASURED = "measured"


MEANING = {
    Check.BYTES: "the archive is what packing its files gives, to the byte",
    Check.MANIFEST: "every file has its sha256, and the manifest follows from the files",
    Check.TABLES: "a table keeps to its schema, its sidecar is of it, and it was made of those that are here",
    Check.CONFIGURATION: "a job was told what the configuration in here tells it, and so is whoever reads this",
    Check.FILES: "a file that no job made is a log of one, an answer that was asked for, or what the run is of",
    Check.CODE: "a file of code or configuration is this release's, or it is named: read it before you run it",
    Check.COMPLETE: "a measured table has the Programs, arms and launches that were to be measured, and no others",
    Check.CONSISTENT: "what measured tables tell twice agrees: lengths, what is counted of an arm, the machine",
    Check.PROOFS: "a Program that was timed for a Problem, from its JSON: its digests, and that it equals it",
    Check.MADE_AGAIN: "what needs no ranks, from the tables in here: proofs, fit, prices, choice, figures",
    Check.MEASURED: "what ranks did: it is taken as recorded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of a check. message: the difference, or why there is no result; empty if all is well."""

    check: Check
    subject: str
    outcome: CheckOutcome
    message: str = ""


def wrong(check: Check, subject: str, message: str) -> Finding:
    """Return a finding of a refuted claim."""
    return Finding(check=check, subject=subject, outcome=CheckOutcome.WRONG, message=message)


def could_not(check: Check, subject: str, message: str) -> Finding:
    """Return a finding of a claim that cannot be checked here."""
    return Finding(check=check, subject=subject, outcome=CheckOutcome.COULD_NOT, message=message)


def judged(check: Check, subject: str, why: str = "") -> Finding:
    """Return the finding of a claim: refuted for a reason, exact without one."""
    return (
        wrong(check, subject, why)
        if why
        else Finding(check=check, subject=subject, outcome=CheckOutcome.EXACT)
    )


def guarded(check: Check, subject: str, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings; an exception counts as wrong: forged files can raise anything."""
    try:
        yield from found
    except Exception as error:
        yield wrong(check, subject, f"it cannot be looked at: {type(error).__name__}: {error}")
