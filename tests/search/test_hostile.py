"""Whatever a proposer gives, a row says what was wrong and the search goes on; if it raises, what came stays."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.evidence.searched import sketch_rows
from overlayccl_core.program.source_check import MAX_SOURCE_BYTES
from overlayccl_core.search.candidate import Candidate, Origin
from overlayccl_core.search.ending import ending_of
from overlayccl_core.search.loop import SearchResult, SearchStop
from overlayccl_core.search.proposal import ProposalOutcome, Rewrite, Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.known_cases import case
from tests.search.costs import OFFLINE, archive_of, bases_of, found_at, plain, pricing_of
from tests.search.test_proposer import MERGE, PROBLEM, SOURCE

pytestmark = pytest.mark.usefixtures("forked")
SURROGATE = "\ud800"
RIGHT = Sketch(function="backwards", source=SOURCE, rationale="right")


def sketch(**fields: Any) -> Sketch:
    return replace(RIGHT, **fields)


def foreign() -> Candidate:
    """A candidate of a search of another Problem."""
    other = catalog.build(case("uniform_a2a"))
    archive = archive_of(other, pricing_of(plain))
    archive.enter(bases_of(other, only_developer=True))
    return archive.candidates[0]


class Told:
    """Says what it is made with, in one round; a function is asked with how the search stands."""

    def __init__(self, said: Any) -> None:
        self.said: Any = said
        self.asked = 0

    def propose(self, standing: Standing) -> Iterable[Any] | None:
        self.asked += 1
        if self.asked > 1:
            return None
        return self.said(standing) if callable(self.said) else self.said  # type: ignore[no-any-return]


def run(said: Any) -> SearchResult:
    """A search from developer alone, by one round of `said`."""
    return found_at(PROBLEM, plain, Told(said))


def rewrite(at: Any = None, steps: Any = (MERGE,), **fields: Any) -> Any:
    """A rewrite at the cheapest elite, unless told otherwise."""
    return lambda standing: Rewrite(at=at or standing.elites[0], steps=steps, **fields)


BAD: list[tuple[Any, str]] = [  # a proposal, or what makes it of the standing; the message
    (None, "a Sketch .*got NoneType"),
    ("merge", "a Sketch .*got str"),
    ({"function": "f", "source": SOURCE}, "a Sketch .*got dict"),
    (object(), "a Sketch .*got object"),
    (sketch(source=f"# {SURROGATE}\n{SOURCE}"), "`source` .*UTF-8 .*character 2"),
    (sketch(function=SURROGATE), "`function` .*UTF-8"),
    (sketch(rationale=SURROGATE), "`rationale` .*UTF-8"),
    (sketch(source=SOURCE.encode()), "`source` .*got bytes"),
    (sketch(source=None), "`source` .*got NoneType"),
    (sketch(function=["f"]), "`function` .*got list"),
    (sketch(rationale=3), "`rationale` .*got int"),
    (sketch(source="#" * (MAX_SOURCE_BYTES + 1)), f"at most {MAX_SOURCE_BYTES} bytes"),
    (sketch(function="f" * 10**6), "`function` .*200 .*1000000"),
    (sketch(source=""), "'backwards' .*are none"),
    (sketch(source=f"{SOURCE}\0"), "null byte"),
    (sketch(function=""), "no strategy ''"),
    (sketch(function="back\0wards"), "no strategy 'back"),
    (sketch(source=f"def backwards(io, p):\n    return {'(' * 5000}"), "does not parse"),
    (sketch(source="def backwards(io, p):\n    backwards(io, p)\n"), "calls nest deeper than"),
    (sketch(source="def backwards():\n    pass\n"), "takes .*got 2 arguments"),
    (rewrite(steps=()), "one step .*\\(\\)"),
    (rewrite(steps=None), "one step .*None"),
    (rewrite(steps=[MERGE]), "one step .*\\["),
    (rewrite(steps=(list(MERGE),)), "a step must .*\\["),
    (rewrite(steps=(MERGE[:2],)), "a step must "),
    (rewrite(steps=(MERGE, (*MERGE, "more"))), "a step must "),
    (rewrite(steps=MERGE), "a step must .*merge"),
    (rewrite(steps=((*MERGE[:2], None),)), "`knob` .*got NoneType"),
    (rewrite(steps=((*MERGE[:2], SURROGATE),)), "`knob` .*UTF-8"),
    (rewrite(steps=((*MERGE[:2], f"1/{'9' * 5000}"),)), "`knob` .*200 bytes"),
    (rewrite(steps=(("me\0rge", *MERGE[1:]),)), "there is no 'me"),
    (rewrite(rationale=None), "`rationale` .*got None"),
    (rewrite(at="developer"), "`at` .*got str"),
    (lambda standing: rewrite(at=foreign())(standing), "`at` .*of this search"),
    (lambda standing: replace(rewrite()(standing), at=replace(standing.elites[0])), "of this search"),
]


def test_a_bad_proposal_is_a_row_and_the_search_goes_on(tmp_path: Path) -> None:
    def said(standing: Standing) -> Iterator[Any]:
        for proposal, _ in BAD:
            yield proposal(standing) if callable(proposal) else proposal
        yield RIGHT

    result = run(said)
    assert result.explored.stop is SearchStop.NO_NEW_ELITE
    refused = [a.message for a in result.attempts if a.outcome is ProposalOutcome.REJECTED]
    for (_, message), told in zip(BAD, refused, strict=True):
        assert re.search(message, told)
    assert [a.outcome for a in result.attempts if a.sketch == RIGHT][-1] is ProposalOutcome.PROGRAM
    head = {"case": PROBLEM.case.id, "direction": "forward", "search": "hostile"}
    rows = [row | head for row in sketch_rows(result.attempts)]
    assert write(SKETCHES, rows, tmp_path / "sketches.parquet").height == len(rows)


def raises(standing: Standing) -> Iterator[Any]:
    raise RuntimeError(f"no answer\nfrom the model {SURROGATE}")


def raises_midway(standing: Standing) -> Iterator[Any]:
    yield RIGHT
    raise KeyError("choices")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (raises, "RuntimeError: no answer from the model \\ud800 ("),
        (raises_midway, "KeyError: 'choices'"),
        (5, "TypeError: 'int'"),
        (RIGHT, "TypeError: 'Sketch'"),
    ],
)
def test_a_proposer_that_raises_ends_its_search_with_one_message_and_what_was_searched_is_kept(
    said: Any, message: str
) -> None:
    result = run(said)
    assert result.explored.stop is SearchStop.PROPOSER_FAILED
    assert message in result.explored.failure and ".py, line " in result.explored.failure
    assert result.best is not None
    assert any(c.origin is Origin.SKETCH for c in result.candidates) == (said is raises_midway)
    named = {c.program.digest: "mine" for c in result.candidates}
    ending = ending_of(result, named, OFFLINE, None)
    assert f"(offline: {result.explored.failure})" in ending.message
    assert "\n" not in ending.message and ending.message.encode()
