"""Searches that ask: what is asked where, what is told, what comes of answers of every kind."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.asking.conversation import Answer, NoAnswer, ReplyOutcome, ToolCall, User
from overlayccl_core.configuration import searches
from overlayccl_core.program.source_check import MAX_SOURCE_BYTES
from overlayccl_core.search.labels import LABEL_RULES
from overlayccl_core.search.proposal import FailedSketch, Sketch
from overlayccl_core.search.style import style as style_of
from tests.known_cases import case
from tests.stages.asked import (
    DOUBLING,
    GRADIENTS,
    LARGER,
    NAME,
    OTHER,
    SMALLER,
    WRONG,
    Ran,
    Script,
    ideas,
    sketch,
)
from tests.stages.flow import ROOT, capabilities


def test_a_program_that_answers_from_a_folder_runs_the_whole_loop(run_search: Callable[..., Ran]) -> None:
    ran = run_search(command=f"{sys.executable} {ROOT / 'examples/answer.py'}", polish=True)
    calls = ran.tables["calls"]
    assert calls["purpose"].to_list() == ["ideas", "implement", "refine", "refine"]
    assert calls["outcome"].to_list() == ["end", "end", "failed", "failed"]
    assert set(calls["made_by"]) == {"scripted", None} and set(calls["style"]) == {"enumerate"}
    assert set(calls["case"]) == {case("grad_ar", LARGER).id}
    found = ran.sketched()
    assert set(found["outcome"]) == {"program"} and set(found["function"]) == {NAME}
    assert dict(found.group_by("case", "direction").len().select("case", "len").iter_rows()) == {
        case("grad_ar", entry).id: 1 for entry in (SMALLER, LARGER)
    }
    made = ran.tables["candidates"]
    assert set(made.filter(pl.col("origin") == "sketch")["equivalence"]) == {"pass"}  # elites or not
    bases = made.filter(pl.col("recipe").str.contains("source:"))
    assert bases.filter(pl.col("recipe").str.contains('steps":\\[\\]')).height == 2 < bases.height
    again = run_search(command="no-such-program-anywhere", polish=True)
    assert again.tables["calls"]["recorded"].to_list() == [True, True, False]
    assert again.tables["candidates"].equals(ran.tables["candidates"])


def test_a_sketch_that_is_wrong_is_told_why_and_mended(run_search: Callable[..., Ran]) -> None:
    model = Script(
        {"ideas": [ideas("one")], "implement": [sketch("def recursive_doubling(io, p:")],
         "repair": [sketch(WRONG), sketch(DOUBLING)]}
    )  # fmt: skip
    ran = run_search(model, enumerate={"refinements": 0})
    rows = ran.sketched(case("grad_ar", LARGER).id)
    assert rows["outcome"].to_list() == ["rejected", "not_proven", "program"]
    assert rows["purpose"].to_list() == ["implement", "repair", "repair"]
    assert "does not parse" in model.said(2) and "expected 1/4 gradient" in model.said(3)
    conversation = model.asked[3][1].messages
    assert len(conversation) == 5 and conversation[1].text == sketch("def recursive_doubling(io, p:")
    assert [row["digest"] for row in ran.tables["calls"].iter_rows(named=True)][1:] == rows["call"].to_list()
    steps = [step for recipe in ran.tables["candidates"]["recipe"] for step in json.loads(recipe)["steps"]]
    assert {rule for rule, *_ in steps} <= {*LABEL_RULES}  # without polish


def test_mending_ends_after_two_times(run_search: Callable[..., Ran]) -> None:
    wrong = [sketch(WRONG + "#\n" * n) for n in range(9)]
    model = Script({"ideas": [ideas("one")], "implement": [sketch(WRONG)], "repair": wrong})
    run_search(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "repair", "repair"]


def test_a_refinement_is_told_what_is_dear_and_held_to_it(run_search: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one")], "implement": [sketch(DOUBLING)], "refine": [sketch(OTHER)] * 9})
    ran = run_search(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", *["refine"] * 3]
    told = model.said(2)
    assert "it is collectives:" in told and DOUBLING in told and "collective_permute" in told
    rows = ran.sketched(case("grad_ar", LARGER).id).filter(pl.col("purpose") == "refine")
    assert set(rows["aim"]) == {"collectives"} and rows["aim_us"].null_count() == 0
    assert rows["outcome"].to_list()[0] == "program" and rows["aimed_us"][0] is not None
    ends = ran.tables["search_ends"].filter(pl.col("sketched") > 1)
    assert ends["sketched_twice"].max() == 2


def test_islands_are_asked_apart_and_get_what_their_neighbour_found(run_search: Callable[..., Ran]) -> None:
    own = [sketch(DOUBLING + f"\n\ndef _of_{n}(x):\n    return x\n") for n in range(2)]
    model = Script({"island": [own[0], *["nothing"] * 9]})
    run_search(model, style="islands", islands={"islands": 2, "rounds": 3, "migration": 2}, repairs=0)
    samples = [request.sample for _, request in model.asked]
    assert samples == [0, 1, 2, 3, 4, 5]
    shown = [DOUBLING in model.said(n) for n in range(6)]
    assert shown == [False, False, True, False, True, True]


FINISH = ToolCall(id="c9", name="finish", input={})


def submit(source: str) -> ToolCall:
    return ToolCall(id="c1", name="submit", input={"function": NAME, "source": source, "rationale": "said"})


def test_react_submits_hears_and_finishes(run_search: Callable[..., Ran]) -> None:
    odd = Answer(text="", calls=(ToolCall(id="c2", name="shell", input={"rm": "-rf"}),))
    wrong, right = (Answer(text="I think", calls=(submit(source),)) for source in (WRONG, DOUBLING))
    model = Script({"turn": [wrong, "no call", odd, right, Answer(text="", calls=(FINISH,)), "never"]})
    ran = run_search(model, style="react")
    assert len(model.asked) == 5
    results = [message.results for message in model.asked[-1][1].messages if isinstance(message, User)]
    [[rejected], [], [refused], [taken]] = results[1:]
    assert rejected.failed and "not_proven" in rejected.text
    assert refused.failed and "no such tool" in refused.text
    assert not taken.failed and "program: 2 collectives; " in taken.text and " us (" in taken.text
    assert ran.sketched(case("grad_ar", LARGER).id)["outcome"].to_list() == ["not_proven", "program"]


def test_what_is_submitted_with_the_end_is_tried(run_search: Callable[..., Ran]) -> None:
    model = Script({"turn": [Answer(text="", calls=(submit(DOUBLING), FINISH)), "never"]})
    ran = run_search(model, style="react")
    assert len(model.asked) == 1 and ran.sketched(GRADIENTS[1].id)["outcome"].to_list() == ["program"]


def test_equal_drafts_are_refined_once(run_search: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING)] * 2})
    run_search(model, repairs=0, enumerate={"refinements": 1})
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "implement", "refine"]


def test_the_proof_of_every_sketch_is_recorded_however_few_others_are_proven(
    run_search: Callable[..., Ran],
) -> None:
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING), sketch(OTHER)]})
    few = {"families": 1, "random": 0, "repairs": 0, "enumerate": {"refinements": 0}}
    made = run_search(model, **few).tables["candidates"]
    mine = made.filter(pl.col("origin") == "sketch", pl.col("case") == case("grad_ar", LARGER).id)
    assert mine["family"].n_unique() == 1 and mine["equivalence"].to_list() == ["pass", "pass"]


def test_what_cannot_run_here_is_not_refined_nor_is_its_equal(run_search: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING)] * 2})
    unable = capabilities().with_columns(supported=pl.col("operation") != "collective_permute")
    ran = run_search(model, library=unable, repairs=0, enumerate={"refinements": 1})
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "implement"]
    assert ran.sketched(GRADIENTS[1].id)["outcome"].to_list() == ["infeasible", "duplicate"]


def test_an_answer_of_no_use_is_a_row_and_the_search_goes_on(run_search: Callable[..., Ran]) -> None:
    too_long = sketch("x" * (MAX_SOURCE_BYTES + 1))
    useless = ["", "I will not.", "{}", "[" * 5000, '{"function": 1}', too_long, "\x00"]
    names = [f"idea {n}" for n in range(len(useless) + 1)]
    model = Script({"ideas": [ideas(*names)], "implement": [*useless, sketch(DOUBLING)]})
    ran = run_search(model, repairs=0, enumerate={"sketches": len(names), "refinements": 0})
    outcomes = ran.sketched(case("grad_ar", LARGER).id)["outcome"].to_list()
    assert outcomes == ["rejected"] * len(useless) + ["program"]


def test_plain_text_with_one_block_of_python_is_a_sketch(run_search: Callable[..., Ran]) -> None:
    answer = f"Swaps are cheap here.\n\n```python\n{DOUBLING}```\nThat is all."
    model = Script({"ideas": [ideas("one")], "implement": [answer]})
    rows = run_search(model, enumerate={"refinements": 0}).sketched(case("grad_ar", LARGER).id)
    assert rows.select("outcome", "function", "rationale").rows() == [
        ("program", NAME, "Swaps are cheap here. That is all.")
    ]


def test_where_asking_on_is_in_vain_the_search_ends_with_what_it_has(run_search: Callable[..., Ran]) -> None:
    no_money = NoAnswer("max_usd: nothing is left", outcome=ReplyOutcome.CEILING, final=True)
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING), no_money]})
    ran = run_search(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "implement"]
    [message] = ran.tables["search_ends"].filter(
        pl.col("sketched") == 1, pl.col("case") == case("grad_ar", LARGER).id
    )["message"]
    assert "max_usd: nothing is left" in message
    assert ran.sketched(case("grad_ar", SMALLER).id)["outcome"].to_list() == ["program"]


def test_what_is_right_forward_is_tried_as_its_transpose_where_the_backward_is_linear(
    run_search: Callable[..., Ran],
) -> None:
    exchange = case("uniform_a2a")
    ran = run_search(command=f"{sys.executable} {ROOT / 'examples/answer.py'}", of_cases=(exchange,))
    rows = ran.tables["sketches"].filter(pl.col("origin") == "sketch")
    assert rows.select("direction", "function", "outcome").rows() == [
        ("forward", "bruck", "program"),
        ("backward", "bruck", "program"),
    ]
    calls = ran.tables["calls"]
    assert set(calls["direction"]) == {"forward"} and calls.height == 4
    backward = ran.tables["candidates"].filter(pl.col("value_digest") == rows["value_digest"][1])
    bases = [json.loads(recipe)["base"] for recipe in backward["recipe"]]
    assert [base for base in bases if list(base) == ["transpose_of"]]


@pytest.mark.parametrize(
    ("style", "changes", "purposes"),
    [
        ("enumerate", {"enumerate": {"sketches": 3, "refined": 0}}, {"ideas", "implement", "repair"}),
        ("react", {"react": {"turns": 4}}, {"turn"}),
        ("islands", {"islands": {"islands": 2, "rounds": 2}}, {"island", "repair"}),
    ],
)
def test_a_search_that_is_always_wrong_asks_as_often_as_was_said_and_no_more(
    run_search: Callable[..., Ran], tmp_path: Path, style: str, changes: dict[str, Any], purposes: set[str]
) -> None:
    wrong = [sketch(WRONG + "#\n" * n) for n in range(50)]
    said = {purpose: list(wrong) for purpose in ("implement", "repair", "turn", "island")}
    model = Script({"ideas": [ideas("one", "two", "three")], **said})
    run_search(model, style=style, **changes)
    assert {purpose for purpose, _ in model.asked} == purposes
    assert len(model.asked) == style_of(style).most_calls(searches.load("mine", tmp_path))


def failed(source: str) -> FailedSketch:
    sketched = Sketch(function=NAME, source=source, rationale="said")
    return FailedSketch(sketch=sketched, where=("grad_ar/n4 forward: raised: no permutes of 7 elements",))


def test_a_second_round_asks_about_what_failed_where_the_first_was_asked_and_tries_what_comes(
    run_search: Callable[..., Ran],
) -> None:
    model = Script({"mend": [sketch(WRONG)], "repair": [sketch(OTHER)]})
    ran = run_search(model, failed=(failed(DOUBLING),))
    assert [purpose for purpose, _ in model.asked] == ["mend", "repair"]
    assert DOUBLING in model.said(0) and "raised: no permutes of 7" in model.said(0)
    assert "expected 1/4 gradient" in model.said(1)
    outcomes = [ran.sketched(one.id)["outcome"].to_list() for one in GRADIENTS]
    assert outcomes == [["program"], ["not_proven", "program"]]
    assert set(ran.tables["search_ends"]["why"]) == {"no_new_elite"}


def test_a_second_round_without_anything_that_failed_asks_nobody_and_is_empty(
    run_search: Callable[..., Ran],
) -> None:
    model = Script({})
    ran = run_search(model, failed=())
    assert not model.asked
    assert [ran.tables[name].height for name in ("calls", "sketches", "candidates")] == [0, 0, 0]
    assert ran.tables["search_ends"]["why"].to_list() == ["none_failed"] * 2


def test_a_script_that_draws_known_ways_answers_right_and_otherwise_at_another_seed(
    run_search: Callable[..., Ran],
) -> None:
    command = f"{sys.executable} {ROOT / 'examples/draw.py'}"
    settings = {
        "command": command,
        "begin": "developer",
        "enumerate": {"sketches": 4, "refined": 2, "refinements": 1},
        "repairs": 0,
    }
    drawn = {}
    for seed in (0, 1):
        ran = run_search(**settings, seed=seed)
        calls = ran.tables["calls"]
        assert calls["purpose"].to_list() == ["ideas", *["implement"] * 4, *["refine"] * 2]
        assert set(calls["outcome"]) == {"end"} and set(calls["made_by"]) == {"scripted"}
        found = ran.sketched()
        assert not {"rejected", "illegal", "not_proven"} & set(found["outcome"]), found["message"].to_list()
        assert (found["outcome"] == "program").any()
        drawn[seed] = found["function"].to_list()
    assert drawn[0] != drawn[1]
