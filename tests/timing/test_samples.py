"""What is still to be timed of a batch that was cut off."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from overlayccl_core.backends.measured import Job, TimedProgram
from overlayccl_core.probes.probe import ProbeBuilder, ProbeRole
from overlayccl_core.timing.launch_store import KeptLaunch
from overlayccl_core.timing.samples import missing
from tests.timing.batches import kept_in

_PROBE = ProbeBuilder(2, 2)
_PROBE.write(_PROBE.read(4))
PROGRAM = _PROBE.finish("copy", ProbeRole.STRUCTURED).program


def job(key: str, *races: str, rounds: int | None = None) -> Job:
    return Job(key=key, program=PROGRAM, source="", races=races, rounds=rounds)


def timed(key: str, rounds: int, planned: int) -> TimedProgram:
    return TimedProgram(
        key=key, program=PROGRAM.digest, launch=0, fingerprint="", samples_us=(1.0,) * rounds,
        planned_rounds=planned,
    )  # fmt: skip


def launch(*programs: TimedProgram, complete: bool = False) -> KeptLaunch:
    return KeptLaunch(rows=[asdict(one) for one in programs], complete=complete)


def test_what_is_kept_of_a_launch_is_what_was_timed(tmp_path: Path) -> None:
    one = replace(timed("a", 3, 12), slowest_rank=(0, 1, 0), samples_us=(0.1, 1 / 3, 7e300))
    kept = kept_in(tmp_path)
    for attempt, complete in enumerate((False, True)):
        assert kept.next_attempt() == attempt
        kept.keep(tmp_path / f"launch-0.{attempt}", [asdict(one)], complete=complete)
    assert [launch.timed for launch in kept.attempts()] == [[one], [one]]
    kept.discard_cut_off()
    [left] = kept.attempts()
    assert left.complete and kept.least_disturbed() == left and kept.next_attempt() == 2


@pytest.mark.parametrize(("taken", "left"), [(3, {"a": 9}), (11, {"a": 2}), (12, {})])
def test_what_was_planned_and_not_taken_is_left_and_never_one_round_alone(
    taken: int, left: dict[str, int]
) -> None:
    assert missing([job("a")], [launch(timed("a", taken, 12))]) == left


def test_a_batch_is_finished_where_its_first_plan_is() -> None:
    assert missing([job("a")], [launch(timed("a", 3, 8)), launch(timed("a", 2, 5))]) == {"a": 3}


def test_a_launch_that_ended_by_itself_is_all_there_is() -> None:
    assert missing([job("a")], [launch(timed("a", 3, 12), complete=True)]) == {}


def test_what_no_launch_has_is_left_whole() -> None:
    assert missing([job("a"), job("b", rounds=4)], [launch(timed("a", 12, 12))]) == {"b": 4}


def test_those_that_still_race_are_compared_in_the_same_rounds() -> None:
    """One was cut off a round later than the other; a third has left its race."""
    jobs = [job("a", "place"), job("b", "place"), job("c", "place"), job("alone")]
    taken = launch(timed("a", 4, 12), timed("b", 3, 12), timed("c", 6, 6), timed("alone", 10, 12))
    assert missing(jobs, [taken]) == {"a": 9, "b": 9, "alone": 2}
    assert missing([replace(one, races=()) for one in jobs], [taken]) == {"a": 8, "b": 9, "alone": 2}
