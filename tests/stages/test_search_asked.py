"""Searches that ask: what is asked where, what is told, what comes of answers of every kind."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from overlayccl_core.asking.conversation import Answer, NoAnswer, Outcome, Request, ToolCall, User
from overlayccl_core.configuration import searches
from overlayccl_core.program.case import Case
from overlayccl_core.program.source_check import MAX_SOURCE_BYTES
from overlayccl_core.search.allowance import Asking
from overlayccl_core.search.desk import Desk
from overlayccl_core.search.proposal import FailedSketch, Sketch
from overlayccl_core.search.proposers import command
from overlayccl_core.search.style import style as style_of
from overlayccl_core.stages import search, seed
from overlayccl_core.stages.cases import row as row_of
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.seed_cases import case
from tests.stages.flow import ROOT, capabilities, quiet

TABLES = (SKETCHES, CANDIDATES, SEARCH_ENDS, CALLS)
DOUBLING = (ROOT / "examples/sketches/grad_ar/recursive_doubling.py").read_text()
NAME = "recursive_doubling"
WRONG = DOUBLING.replace("scale(total, 1, n)", "scale(total, 2, n)")
OTHER = DOUBLING.replace("for k in range(n.bit_length() - 1)", "for k in reversed(range(n.bit_length() - 1))")


def sketch(source: str, rationale: str = "said") -> str:
    return json.dumps({"function": NAME, "source": source, "rationale": rationale})


def ideas(*names: str) -> str:
    return json.dumps(
        {"ideas": [{"name": n, "family": f"family of {n}", "idea": f"idea of {n}"} for n in names]}
    )


@dataclass
class Script:
    """Answers by purpose, the next one each time; what it has none for it cannot answer."""

    answers: Mapping[str, list[str | Answer | NoAnswer]]
    recorded: bool = False
    asked: list[tuple[str, Request]] = field(default_factory=list)

    def answer(self, request: Request, *, purpose: str) -> Answer:
        self.asked.append((purpose, request))
        left = self.answers.get(purpose, [])
        said = left.pop(0) if left else NoAnswer("nothing more is written", outcome=Outcome.FAILED)
        if isinstance(said, NoAnswer):
            raise said
        return Answer(text=said) if isinstance(said, str) else said

    def said(self, number: int) -> str:
        message = self.asked[number][1].messages[-1]
        assert isinstance(message, User)
        return message.text


@dataclass
class Ran:
    tables: dict[str, pl.DataFrame]
    folder: Path

    def sketched(self, case_: str | None = None) -> pl.DataFrame:
        mine = self.tables["sketches"].filter(pl.col("origin") == "sketch")
        return mine if case_ is None else mine.filter(pl.col("case") == case_)


SMALLER, LARGER = {"sizes": [7, 64]}, {"sizes": [7, 64, 1, 33]}
GRADIENTS = (case("grad_ar", SMALLER), case("grad_ar", LARGER))


@pytest.fixture
def run(tmp_path: Path, tp_flow: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    @cache
    def of(cases: tuple[Case, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = write(CASES, [row_of(one) for one in cases], tmp_path / "cases.parquet")
        seeds = seed.run(tp_flow.deployment, rows, capabilities(), progress=quiet)["seeds"]
        return rows, write(SEEDS, seeds, tmp_path / "seeds.parquet")

    def searched(
        model: Script | None = None,
        *,
        of_cases: tuple[Case, ...] = GRADIENTS,
        failed: tuple[FailedSketch, ...] | None = None,
        **changes: Any,
    ) -> Ran:
        cases, known = of(of_cases)
        if model is not None:
            monkeypatch.setattr(command, "language_model", lambda _: model)
        fields = yaml.safe_load((ROOT / "config/searches/command.yaml").read_text())
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(fields | {"polish": False} | changes))
        tables = search.run(
            *(tp_flow.deployment, searches.load("mine", tmp_path), cases, known),
            *(tp_flow.theta, tp_flow.judged, capabilities()),
            asking=Asking(answers=tmp_path / "answers", tree=tmp_path, max_usd=1.0),
            clock=lambda: 0.0,
            progress=quiet,
            failed=failed,
        )
        made = {t.name: write(t, tables[t.name], tmp_path / f"{t.name}.parquet") for t in TABLES}
        return Ran(made, tmp_path)

    return searched


def test_a_program_that_answers_from_a_folder_runs_the_whole_loop(run: Callable[..., Ran]) -> None:
    ran = run(command=f"{sys.executable} {ROOT / 'examples/answer.py'}", polish=True)
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
    again = run(command="no-such-program-anywhere", polish=True)
    assert again.tables["calls"]["recorded"].to_list() == [True, True, False]
    assert again.tables["candidates"].equals(ran.tables["candidates"])


def test_what_is_asked_first_has_the_problem_the_language_the_deployment_and_the_known(
    run: Callable[..., Ran],
) -> None:
    model = Script({})
    run(model)
    [(purpose, request)] = model.asked
    assert (purpose, request.sample, request.max_tokens) == ("ideas", 0, 16000)
    for told in (
        "all_reduce(x", "io.read(name, *index)", "# The Problem: grad_ar at", "gradient[0..3]",
        "p.world_size = 4", "def reduce_scatter_all_gather(io, p)", "while: use for", "us [collectives]",
    ):  # fmt: skip
        assert told in request.system, told
    assert "log(" not in request.system  # only where the Problem is not linear
    asked = model.said(0)
    assert (
        "Name 5 strategies" in asked
        and "developer: 4 collectives; " in asked
        and "all_reduce:world4:1" in asked
    )


def test_figures_are_told_in_two_digits(run: Callable[..., Ran]) -> None:
    model = Script({})
    run(model)
    [(_, request)] = model.asked
    told = re.findall(r"[\d,.]*\d(?= us|\.\.| \(\d)", request.system.partition("cost model")[2])
    digits = [figure.replace(",", "").replace(".", "").strip("0") for figure in told]
    assert len(digits) > 20 and max(map(len, digits)) == 2


def test_without_scores_the_order_of_what_is_known_tells_none(run: Callable[..., Ran]) -> None:
    def known(**changes: Any) -> list[str]:
        model = Script({})
        run(model, **changes)
        return re.findall(r"^- (\w+): \d+ collectives", model.said(0), re.MULTILINE)

    scored, blind = known(), known(show_scores=False)
    assert sorted(scored) == sorted(blind) and scored != blind and scored[-1] == "developer" != blind[-1]


@pytest.mark.parametrize(("show_scores", "first"), [(True, "cheap"), (False, "dear")])
def test_what_is_refined_is_the_cheapest_or_what_came_first(show_scores: bool, first: str) -> None:
    drafts: Any = [SimpleNamespace(name=n, candidate=SimpleNamespace(order=us)) for n, us in
                   (("dear", 2.0), ("cheap", 1.0))]  # fmt: skip
    at: Any = Desk(
        search=SimpleNamespace(show_scores=show_scores), ledger=None, facts=None, leads=frozenset()
    )  # type: ignore[arg-type]
    assert at.best(drafts)[0].name == first


def test_where_no_score_is_shown_no_price_is_told_and_none_orders(run: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one")], "implement": [sketch(DOUBLING)]})
    run(model, show_scores=False)
    texts = [request.system + str(request.messages) for _, request in model.asked]
    assert {purpose for purpose, _ in model.asked} == {"ideas", "implement", "refine"}
    assert not [text for text in texts if " us" in text.replace(" use", "")]


def test_a_sketch_that_is_wrong_is_told_why_and_mended(run: Callable[..., Ran]) -> None:
    model = Script(
        {"ideas": [ideas("one")], "implement": [sketch("def recursive_doubling(io, p:")],
         "repair": [sketch(WRONG), sketch(DOUBLING)]}
    )  # fmt: skip
    ran = run(model, enumerate={"refinements": 0})
    rows = ran.sketched(case("grad_ar", LARGER).id)
    assert rows["outcome"].to_list() == ["rejected", "not_proven", "program"]
    assert rows["purpose"].to_list() == ["implement", "repair", "repair"]
    assert "does not parse" in model.said(2) and "expected 1/4 gradient" in model.said(3)
    conversation = model.asked[3][1].messages
    assert len(conversation) == 5 and conversation[1].text == sketch("def recursive_doubling(io, p:")
    assert [row["digest"] for row in ran.tables["calls"].iter_rows(named=True)][1:] == rows["call"].to_list()


def test_mending_ends_after_two_times(run: Callable[..., Ran]) -> None:
    model = Script(
        {
            "ideas": [ideas("one")],
            "implement": [sketch(WRONG)],
            "repair": [sketch(WRONG + "#\n" * n) for n in range(9)],
        }
    )
    run(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "repair", "repair"]


def test_a_refinement_is_told_what_is_dear_and_held_to_it(run: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one")], "implement": [sketch(DOUBLING)], "refine": [sketch(OTHER)] * 9})
    ran = run(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", *["refine"] * 3]
    told = model.said(2)
    assert "Most of it is collectives:" in told and DOUBLING in told and "collective_permute" in told
    rows = ran.sketched(case("grad_ar", LARGER).id).filter(pl.col("purpose") == "refine")
    assert set(rows["aim"]) == {"collectives"} and rows["aim_us"].null_count() == 0
    assert rows["outcome"].to_list()[0] == "program" and rows["aimed_us"][0] is not None
    ends = ran.tables["search_ends"].filter(pl.col("sketched") > 1)
    assert ends["sketched_twice"].max() == 2


def test_islands_are_asked_apart_and_get_what_their_neighbour_found(run: Callable[..., Ran]) -> None:
    own = [sketch(DOUBLING + f"\n\ndef _of_{n}(x):\n    return x\n") for n in range(2)]
    model = Script({"island": [own[0], *["nothing"] * 9]})
    run(model, style="islands", islands={"islands": 2, "rounds": 3, "migration": 2}, repairs=0)
    samples = [request.sample for _, request in model.asked]
    assert samples == [0, 1, 2, 3, 4, 5]
    shown = [DOUBLING in model.said(n) for n in range(6)]
    assert shown == [False, False, True, False, True, True]


def test_react_submits_hears_and_finishes(run: Callable[..., Ran]) -> None:
    def submitted(source: str) -> Answer:
        call = ToolCall(
            id="c1", name="submit", input={"function": NAME, "source": source, "rationale": "tried"}
        )
        return Answer(text="I think", calls=(call,))

    finish = Answer(text="", calls=(ToolCall(id="c9", name="finish", input={}),))
    odd = Answer(text="", calls=(ToolCall(id="c2", name="shell", input={"rm": "-rf"}),))
    model = Script({"turn": [submitted(WRONG), "no call", odd, submitted(DOUBLING), finish, "never"]})
    ran = run(model, style="react")
    assert len(model.asked) == 5
    results = [message.results for message in model.asked[-1][1].messages if isinstance(message, User)]
    [[wrong], [], [refused], [right]] = results[1:]
    assert wrong.failed and "not_proven" in wrong.text and refused.failed and "no such tool" in refused.text
    assert not right.failed and "program: 2 collectives; " in right.text and " us (" in right.text
    assert ran.sketched(case("grad_ar", LARGER).id)["outcome"].to_list() == ["not_proven", "program"]


def test_what_is_submitted_with_the_end_is_tried(run: Callable[..., Ran]) -> None:
    submit = ToolCall(
        id="c1", name="submit", input={"function": NAME, "source": DOUBLING, "rationale": "said"}
    )
    finish = ToolCall(id="c2", name="finish", input={})
    model = Script({"turn": [Answer(text="", calls=(submit, finish)), "never"]})
    ran = run(model, style="react")
    assert len(model.asked) == 1 and ran.sketched(GRADIENTS[1].id)["outcome"].to_list() == ["program"]


def test_a_search_that_got_no_ideas_says_so(run: Callable[..., Ran]) -> None:
    ends = run(Script({})).tables["search_ends"]
    assert ends["message"].str.contains("asked no more: no ideas came: nothing more is written").sum() == 1


def test_equal_drafts_are_refined_once(run: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING)] * 2})
    run(model, repairs=0, enumerate={"refinements": 1})
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "implement", "refine"]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I will not.",
        "{}",
        "[" * 5000,
        '{"function": 1}',
        sketch("x" * (MAX_SOURCE_BYTES + 1)),
        "\x00",
    ],
    ids=["empty", "prose", "object", "deep", "types", "long", "null"],
)
def test_an_answer_of_no_use_is_a_row_and_the_search_goes_on(run: Callable[..., Ran], said: str) -> None:
    model = Script({"ideas": [ideas("one", "two")], "implement": [said, sketch(DOUBLING)]})
    ran = run(model, repairs=0, enumerate={"refinements": 0})
    assert ran.sketched(case("grad_ar", LARGER).id)["outcome"].to_list() == ["rejected", "program"]


def test_plain_text_with_one_block_of_python_is_a_sketch(run: Callable[..., Ran]) -> None:
    answer = f"Swaps are cheap here.\n\n```python\n{DOUBLING}```\nThat is all."
    model = Script({"ideas": [ideas("one")], "implement": [answer]})
    rows = run(model, enumerate={"refinements": 0}).sketched(case("grad_ar", LARGER).id)
    assert rows.select("outcome", "function", "rationale").rows() == [
        ("program", NAME, "Swaps are cheap here. That is all.")
    ]


def test_where_asking_on_is_in_vain_the_search_ends_with_what_it_has(run: Callable[..., Ran]) -> None:
    no_money = NoAnswer("max_usd: nothing is left", outcome=Outcome.CEILING, final=True)
    model = Script({"ideas": [ideas("one", "two")], "implement": [sketch(DOUBLING), no_money]})
    ran = run(model)
    assert [purpose for purpose, _ in model.asked] == ["ideas", "implement", "implement"]
    [message] = ran.tables["search_ends"].filter(
        pl.col("sketched") == 1, pl.col("case") == case("grad_ar", LARGER).id
    )["message"]
    assert "asked no more: max_usd: nothing is left" in message
    assert ran.sketched(case("grad_ar", SMALLER).id)["outcome"].to_list() == ["program"]


def test_what_is_right_forward_is_tried_as_its_transpose_where_the_backward_is_linear(
    run: Callable[..., Ran],
) -> None:
    exchange = case("uniform_a2a")
    ran = run(command=f"{sys.executable} {ROOT / 'examples/answer.py'}", of_cases=(exchange,))
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


def test_what_is_not_linear_is_told_its_functions_and_asked_about_where_something_is_exchanged(
    run: Callable[..., Ran],
) -> None:
    model = Script({})
    ran = run(model, of_cases=(case("dist_ce"),))
    [(_, request)] = model.asked
    assert "log(" in request.system and set(ran.tables["calls"]["direction"]) == {"forward"}
    assert "backward" in set(ran.tables["search_ends"]["direction"])


@pytest.mark.parametrize(
    ("style", "changes", "purposes"),
    [
        ("enumerate", {"enumerate": {"sketches": 3, "refined": 0}}, {"ideas", "implement", "repair"}),
        ("react", {"react": {"turns": 4}}, {"turn"}),
        ("islands", {"islands": {"islands": 2, "rounds": 2}}, {"island", "repair"}),
    ],
)
def test_a_search_that_is_always_wrong_asks_as_often_as_was_said_and_no_more(
    run: Callable[..., Ran], tmp_path: Path, style: str, changes: dict[str, Any], purposes: set[str]
) -> None:
    wrong = [sketch(WRONG + "#\n" * n) for n in range(50)]
    said = {purpose: list(wrong) for purpose in ("implement", "repair", "turn", "island")}
    model = Script({"ideas": [ideas("one", "two", "three")], **said})
    run(model, style=style, **changes)
    assert {purpose for purpose, _ in model.asked} == purposes
    assert len(model.asked) == style_of(style).most_calls(searches.load("mine", tmp_path))


def failed(source: str) -> FailedSketch:
    sketched = Sketch(function=NAME, source=source, rationale="said")
    return FailedSketch(sketch=sketched, where=("grad_ar/n4 forward: raised: no permutes of 7 elements",))


def test_a_second_round_asks_about_what_failed_where_the_first_was_asked_and_tries_what_comes(
    run: Callable[..., Ran],
) -> None:
    model = Script({"mend": [sketch(WRONG)], "repair": [sketch(OTHER)]})
    ran = run(model, failed=(failed(DOUBLING),))
    assert [purpose for purpose, _ in model.asked] == ["mend", "repair"]
    assert DOUBLING in model.said(0) and "raised: no permutes of 7 elements" in model.said(0)
    assert "expected 1/4 gradient" in model.said(1)
    outcomes = [ran.sketched(one.id)["outcome"].to_list() for one in GRADIENTS]
    assert outcomes == [["program"], ["not_proven", "program"]]
    assert set(ran.tables["search_ends"]["why"]) == {"no_new_elite"}


def test_a_second_round_without_anything_that_failed_asks_nobody_and_is_empty(
    run: Callable[..., Ran],
) -> None:
    model = Script({})
    ran = run(model, failed=())
    assert not model.asked
    assert [ran.tables[name].height for name in ("calls", "sketches", "candidates")] == [0, 0, 0]
    assert ran.tables["search_ends"]["why"].to_list() == ["none_failed"] * 2
