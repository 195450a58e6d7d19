"""Attempts of a job: what those without tables took is not lost, and counts once."""

from pathlib import Path

import pytest

from overlayccl_core.tables import attempts


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a job."""
    return tmp_path / "train-nano.log"


def lost_s(log: Path) -> float:
    return attempts.lost_s(attempts.file_of(log))


def test_a_job_that_makes_its_tables_at_once_lost_nothing(log: Path) -> None:
    attempts.begin(log, 100.0)
    attempts.end(log, 160.0, made=True)
    assert lost_s(log) == 0.0
    assert attempts.made_s(attempts.file_of(log)) == 60.0


def test_what_a_job_took_is_not_known_while_it_works_or_after_it_failed(log: Path) -> None:
    assert attempts.made_s(attempts.file_of(log)) is None
    attempts.begin(log, 100.0)
    assert attempts.made_s(attempts.file_of(log)) is None
    attempts.end(log, 160.0, made=False)
    assert attempts.made_s(attempts.file_of(log)) is None


def test_attempts_that_failed_are_lost_and_add_up(log: Path) -> None:
    for began, made in ((100.0, False), (200.0, False), (300.0, True)):
        attempts.begin(log, began)
        attempts.end(log, began + 10.0, made=made)
    assert lost_s(log) == 20.0


def test_a_killed_attempt_took_until_its_last_sign_of_life_though_its_log_is_gone(log: Path) -> None:
    attempts.begin(log, 100.0)
    log.write_text("[00:00:00] train: launch 2 of 5\n")
    attempts.alive(log, 130.0)
    assert lost_s(log) == 0.0  # it may still be at work
    log.unlink()  # as Snakemake does before it runs a job again
    attempts.begin(log, 500.0)
    attempts.end(log, 560.0, made=True)
    assert lost_s(log) == 30.0


def test_a_job_that_runs_again_after_its_tables_begins_a_new_account(log: Path) -> None:
    for began, made in ((100.0, False), (200.0, True), (300.0, True)):
        attempts.begin(log, began)
        attempts.end(log, began + 10.0, made=made)
    assert lost_s(log) == 0.0 and len(attempts.read(attempts.file_of(log))) == 1


def test_a_damaged_file_says_nothing_and_stops_no_job(log: Path) -> None:
    attempts.file_of(log).write_text("what is this\n")
    assert lost_s(log) == 0.0
    attempts.begin(log, 100.0)
    attempts.end(log, 110.0, made=False)
    assert lost_s(log) == 10.0
