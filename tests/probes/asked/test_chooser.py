"""The conversation: what is told, what is measured, what ends it, and that nothing that was measured is lost."""

import re
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.asking.conversation import NoAnswer, ReplyOutcome, User
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.measurements import measurements
from tests.asking.requests import ledger
from tests.probes.asked.talk import SMALL, Ranks, Talked, call, example, talk, turn

COLLECTIVE = call("time_collectives", **SMALL)
FINISH = call("finish")
DIED = LaunchError("rank 2 died at /secret/place", kind=Failure.CRASHED, ranks=(2,))


def sizes(*payloads: int) -> list[tuple[str, dict[str, Any]]]:
    return [call("time_collectives", kind="all_reduce", payload_bytes=size) for size in payloads]


def programs(talked: Talked) -> set[str]:
    return {row["program"] for row in talked.chooser.timed}


def test_it_is_told_the_columns_the_deployment_and_the_budget_and_no_time(tmp_path: Path) -> None:
    talked = talk(tmp_path, turn(FINISH))
    system, message = talked.first.system, talked.said(0).text
    assert "all_reduce.node4.alone.count: us [collectives]" in system and "wait.count" in system
    assert "all_reduce.second.count: us [amortization, optional]" in system
    assert "world: 1 of 4 ranks" in system and "halves: 2 of 2 ranks" in system
    assert "at most 16777216 bytes" in system and "536870912" in system
    assert all(part in message for part in ("5 turns", "20 probes", "100.0 seconds", "8 rounds"))
    assert not re.search(r"\d us\b", system + message)  # nothing was measured yet
    assert talked.chooser.ended == "it called finish" and not talked.ranks.launches


def test_what_one_turn_orders_is_one_launch_and_it_hears_what_was_measured(tmp_path: Path) -> None:
    talked = talk(tmp_path, turn(*sizes(1024, 4096)), turn(*sizes(1024, 2048)), turn(FINISH))
    assert [len(names) for names in talked.ranks.launches] == [2, 1]
    assert talked.outcomes() == ["measured", "measured", "known", "measured", "told"]
    measured = measurements(talked.chooser.timed)
    first = talked.chooser.asked[0].probe
    assert first is not None
    estimate = measured[first.program.digest].estimate
    [told, _] = talked.heard(1)
    low, high = map(figures, estimate.interval())
    assert told.startswith(
        f"{first.name}: {figures(estimate.value)} us ({low}..{high}), 12 rounds; first call "
    )
    assert talked.heard(2)[0] == told
    assert "3 turns, 17 probes" in talked.said(2).text
    assert len(programs(talked)) == 3


def test_what_a_model_writes_is_no_measurement(tmp_path: Path) -> None:
    lying = turn(call("time_collectives", **SMALL, us=1.0, samples_us=[1.0]), text="It took 1.0 us.")
    talked = talk(tmp_path, lying, turn(COLLECTIVE, text="all_reduce takes 1.0 us"), turn(FINISH))
    assert talked.outcomes() == ["refused", "measured", "told"]
    assert "there is no such field" in talked.heard(1)[0] and talked.said(1).results[0].failed
    [row] = talked.chooser.timed
    assert min(row["samples_us"]) > 1000  # all_reduce as the made-up ranks are


def test_a_wrong_call_is_refused_and_the_others_of_its_turn_are_measured(tmp_path: Path) -> None:
    calls = [
        call("time_collectives", kind="all_reduce", payload_bytes=2**50),
        call("measure_everything"),
        call("time_coalesced_calls", payload_bytes=64, values=2),
        COLLECTIVE,
        COLLECTIVE,
    ]
    talked = talk(tmp_path, turn(*calls), turn(FINISH))
    assert talked.outcomes() == ["refused", "refused", "refused", "measured", "measured", "told"]
    huge, unknown, lacking, *_ = talked.heard(1)
    assert "at most 16777216 here" in huge
    assert "no such tool" in unknown and "`finish`" in unknown
    assert "all_reduce_coalesced" in lacking and "is not supported here" in lacking
    assert [result.failed for result in talked.said(1).results] == [True, True, True, False, False]
    assert len(talked.ranks.launches) == len(talked.ranks.launches[0]) == 1


def test_support_and_coefficients_are_told_without_a_launch(tmp_path: Path) -> None:
    free = [
        call("supports", kind="all_to_all", payload_bytes=64),
        call("supports", kind="all_to_all", payload_bytes=64, groups="quarters"),
        call("coefficients"),
    ]
    mixed = [call("time_mixed", count=16, first=first) for first in range(0, 128, 16)]
    talked = talk(tmp_path, turn(*free), turn(*mixed), turn(call("coefficients")), turn(FINISH), probes=140)
    yes, refused, too_few = talked.heard(1)
    assert yes == "yes" and "'quarters'" in refused
    assert "too few probes" in too_few
    assert len(talked.ranks.launches) == 1
    [fitted] = talked.heard(3)
    lines = fitted.splitlines()
    timed = re.compile(r"all_reduce\.node4\.alone\.count: [\d.,]+ us \(.+\.\..+\), in \d+ probes")
    assert any(timed.match(line) for line in lines)
    assert any(line.startswith("all_reduce_coalesced.count: in no probe") for line in lines)
    assert any("not told apart, in " in line for line in lines)


def test_random_programs_that_the_library_cannot_run_are_left_out_of_an_order(tmp_path: Path) -> None:
    order = turn(call("time_mixed", count=8), COLLECTIVE)
    talked = talk(tmp_path, order, turn(FINISH))
    assert talked.outcomes().count("measured") == 9
    assert len(talked.heard(1)[0].splitlines()) == 8


@pytest.mark.parametrize(
    ("budget", "ended", "asked"),
    [
        ({"turns": 3}, "its 3 turns", 3),
        ({"probes": 2}, "its 2 probes", 2),
        ({"seconds": 0.01}, "its 0.01 seconds", 1),
    ],
)
def test_a_budget_that_is_used_up_ends_it_without_another_question(
    tmp_path: Path, budget: dict[str, float], ended: str, asked: int
) -> None:
    many = [turn(*sizes(1024 * n)) for n in range(1, 9)]
    talked = talk(tmp_path, *many, **budget)
    assert talked.chooser.ended.startswith(ended)
    assert len(talked.model.asked) == len(talked.ranks.launches) == asked == len(programs(talked))


def test_more_than_are_left_are_refused_midway(tmp_path: Path) -> None:
    talked = talk(tmp_path, turn(*sizes(1024, 2048), call("time_mixed", count=2), *sizes(4096)), probes=3)
    assert talked.outcomes() == ["measured", "measured", "refused", "measured"]
    assert any("2 more probes, and 1 are" in message for message in talked.messages())
    assert talked.chooser.ended == "its 3 probes are used up"


def test_who_only_talks_is_told_to_call_a_tool_until_the_turns_are_over(tmp_path: Path) -> None:
    talked = talk(tmp_path, turn(text="I think that it takes 3 us."))
    assert talked.chooser.ended == "its 5 turns are over" and len(talked.model.asked) == 5
    assert all(part in talked.said(4).text for part in ("Call a tool", "`finish`", "1 turns", "20 probes"))
    assert not talked.chooser.timed and not talked.chooser.asked


def test_calls_without_end_in_one_turn_are_cut(tmp_path: Path) -> None:
    talked = talk(tmp_path, turn(*[COLLECTIVE] * 70, FINISH))
    assert talked.outcomes().count("refused") == 7 and talked.chooser.ended == "it called finish"
    assert "at most 64 calls" in talked.messages()[-1]


def test_where_nobody_answers_or_the_money_ends_what_was_measured_is_kept(tmp_path: Path) -> None:
    gone = NoAnswer("the service is down", outcome=ReplyOutcome.OVERLOADED)
    talked = talk(tmp_path / "down", turn(COLLECTIVE), gone)
    assert talked.chooser.ended.endswith(": the service is down") and len(programs(talked)) == 1
    assert [one.record.outcome for one in talked.chooser.ledger.calls] == ["tool_calls", "overloaded"]

    def poor(model: object, tree: Path) -> Ledger:
        return ledger(model, tree, max_usd=3.5)

    talked = talk(tmp_path, turn(COLLECTIVE), ask=poor, how={"model": "dear"})
    assert talked.chooser.ended.startswith("asked no more: max_usd: ")
    assert (
        len(programs(talked)) >= 1 and talked.chooser.ledger.calls[-1].record.outcome is ReplyOutcome.CEILING
    )


def test_a_launch_that_fails_is_told_without_places_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    ranks = Ranks(fails={1: DIED})
    talked = talk(tmp_path, *(turn(*sizes(1024 * n)) for n in (1, 2, 2, 3)), turn(FINISH), ranks=ranks)
    assert talked.outcomes() == ["measured", "failed", "failed", "measured", "told"]
    told = talked.heard(2)[0]
    assert told.endswith("its launch failed") and talked.said(2).results[0].failed
    for request in talked.model.asked:
        for message in request.messages:
            assert "/secret/place" not in str(message)
    assert "/secret/place" in talked.messages()[1]
    assert len(ranks.launches) == 3  # what failed is not timed again
    assert len(programs(talked)) == 2


def test_a_second_launch_that_fails_ends_it(tmp_path: Path) -> None:
    ranks = Ranks(fails={1: DIED, 2: DIED})
    talked = talk(tmp_path, *(turn(*sizes(1024 * n)) for n in range(1, 9)), ranks=ranks)
    assert re.match(r"2 launches.*: rank 2 died", talked.chooser.ended)
    assert len(programs(talked)) == 1 and len(talked.model.asked) == 3


def test_a_conversation_alternates_and_equal_measurements_are_not_asked_about_again(tmp_path: Path) -> None:
    first = talk(tmp_path, *example(), probes=80)
    gone = NoAnswer("there is no network", outcome=ReplyOutcome.LOST)
    again = talk(tmp_path, gone, probes=80)
    assert not again.model.asked and again.chooser.ended == first.chooser.ended == "it called finish"
    assert [call.recorded for call in again.chooser.ledger.calls] == [True] * 5
    assert again.chooser.timed == first.chooser.timed and len(programs(first)) == 64
    last = first.model.asked[-1].messages
    assert [isinstance(message, User) for message in last] == [True, False] * 4 + [True]
    for said, heard in zip(last[1::2], last[2::2], strict=True):
        assert [one.id for one in said.calls] == [one.id for one in heard.results]  # type: ignore[union-attr]
