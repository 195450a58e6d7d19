"""What a search that asks tells: the problem, the deployment, what is known, prices or none."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core.search.desk import Desk
from tests.known_cases import case
from tests.stages.asked import DOUBLING, Ran, Script, ideas, sketch


def test_what_is_asked_first_has_the_problem_the_language_the_deployment_and_the_known(
    run_search: Callable[..., Ran],
) -> None:
    model = Script({})
    ends = run_search(model).tables["search_ends"]
    assert ends["message"].str.contains("no ideas came").sum() == 1
    [(purpose, request)] = model.asked
    assert (purpose, request.sample, request.max_tokens) == ("ideas", 0, 16000)
    for told in (
        "all_reduce(x", "io.read(name, *index)", "# The Problem: grad_ar at", "gradient[0..3]",
        "p.world_size = 4", "def reduce_scatter_all_gather(values, p)", "while: use for", "us [collectives]",
    ):  # fmt: skip
        assert told in request.system, told
    assert "log(" not in request.system  # only where the Problem is not linear
    asked = model.said(0)
    assert all(part in asked for part in ("Name 5 strategies", "one_by_one: 4 ", "all_reduce:world4:1"))
    figures = re.findall(r"[\d,.]*\d(?= us|\.\.| \(\d)", request.system.partition("cost model")[2])
    digits = [figure.replace(",", "").replace(".", "").strip("0") for figure in figures]
    assert len(digits) > 20 and max(map(len, digits)) == 2


def test_without_scores_the_order_of_what_is_known_tells_none(run_search: Callable[..., Ran]) -> None:
    def known(**changes: Any) -> list[str]:
        model = Script({})
        run_search(model, **changes)
        return re.findall(r"^- (\w+): \d+ collectives", model.said(0), re.MULTILINE)

    scored, blind = known(), known(show_scores=False)
    assert sorted(scored) == sorted(blind) and scored != blind and scored[-1] == "one_by_one" != blind[-1]


@pytest.mark.parametrize(("show_scores", "first"), [(True, "cheap"), (False, "dear")])
def test_what_is_refined_is_the_cheapest_or_what_came_first(show_scores: bool, first: str) -> None:
    drafts: Any = [SimpleNamespace(name=n, candidate=SimpleNamespace(order=us)) for n, us in
                   (("dear", 2.0), ("cheap", 1.0))]  # fmt: skip
    at: Any = Desk(
        search=SimpleNamespace(show_scores=show_scores), ledger=None, facts=None, leads=frozenset()
    )  # type: ignore[arg-type]
    assert at.best(drafts)[0].name == first


def test_where_no_score_is_shown_no_price_is_told_and_none_orders(run_search: Callable[..., Ran]) -> None:
    model = Script({"ideas": [ideas("one")], "implement": [sketch(DOUBLING)]})
    run_search(model, show_scores=False)
    texts = [request.system + str(request.messages) for _, request in model.asked]
    assert {purpose for purpose, _ in model.asked} == {"ideas", "implement", "refine"}
    assert not [text for text in texts if " us" in text.replace(" use", "")]


def test_what_is_not_linear_is_told_its_functions_and_asked_about_where_something_is_exchanged(
    run_search: Callable[..., Ran],
) -> None:
    model = Script({})
    ran = run_search(model, of_cases=(case("dist_ce"),))
    [(_, request)] = model.asked
    assert "log(" in request.system and set(ran.tables["calls"]["direction"]) == {"forward"}
    assert "backward" in set(ran.tables["search_ends"]["direction"])
