"""enumerate: one call for diverse ideas, one to write out each, then refinements of the best.

1 + K + refined x R calls, plus repairs. The default.
"""

from collections.abc import Iterator
from typing import Any

from overlayccl_core.asking.conversation import NoAnswer, User
from overlayccl_core.search.answers import Idea, ideas_of
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.desk import Desk, Draft, Talk
from overlayccl_core.search.proposal import Aim, Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import AskPurpose


def most_calls(search: Any) -> int:
    """Return 1 + K + refined x R, plus repairs of each sketch."""
    of = search.enumerate
    return int(1 + (of.sketches + of.refined * of.refinements) * (1 + search.repairs))


def opening(desk: Desk, standing: Standing) -> tuple[Talk, AskPurpose, User]:
    """Return the question for ideas."""
    talk = desk.talk(standing)
    return talk, AskPurpose.IDEAS, talk.message(AskPurpose.IDEAS, count=desk.search.enumerate.sketches)


def propose(desk: Desk, standing: Standing) -> Iterator[Sketch]:
    """Yield the sketches of all ideas, then those of refinements."""
    settings = desk.search.enumerate
    right: list[Draft] = []
    for idea in _ideas(desk, standing):
        draft = yield from desk.talk(standing).drafted(AskPurpose.IMPLEMENT, idea=idea)
        right += _new(draft, right)
    for number in range(settings.refinements):
        for chosen in desk.best(right)[: settings.refined]:
            aim = _aim(chosen.candidate) if desk.search.show_scores else None
            draft = yield from desk.talk(standing, draw=number).drafted(
                AskPurpose.REFINE, aim, sketch=chosen.sketch, candidate=chosen.candidate
            )
            right += _new(draft, right)


def _aim(candidate: Candidate) -> Aim | None:
    """Return the largest term of a candidate's price; None without a price."""
    terms = candidate.price.terms
    if candidate.price.us is None or not terms:
        return None
    largest = max(terms, key=lambda term: (terms[term], term))
    return Aim(term=largest.value, us=terms[largest])


def _new(draft: Draft | None, right: list[Draft]) -> list[Draft]:
    """Return the draft if its Program is new among the right ones, else nothing."""
    if draft is None or any(one.candidate is draft.candidate for one in right):
        return []
    return [draft]


def _ideas(desk: Desk, standing: Standing) -> tuple[Idea, ...]:
    talk, purpose, message = opening(desk, standing)
    try:
        return ideas_of(talk.send(purpose, message), desk.search.enumerate.sketches)
    except NoAnswer as error:
        if error.final:
            raise
        desk.ended = f"no ideas came: {error}"
        return ()
