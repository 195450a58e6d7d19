"""islands: separate populations, each asked once a round; now and then the best one moves on.

islands x rounds calls, plus repairs. After every `migration` rounds each island gets its neighbour's best, unless
it has the same Program.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from overlayccl_core.asking.conversation import User
from overlayccl_core.search.desk import Desk, Draft, Talk
from overlayccl_core.search.proposal import Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import AskPurpose

SHOWN = 3  # members of a population, the best


def most_calls(search: Any) -> int:
    """Return one call for each island and round, plus repairs of each sketch."""
    return int(search.islands.islands * search.islands.rounds * (1 + search.repairs))


def opening(desk: Desk, standing: Standing) -> tuple[Talk, AskPurpose, User]:
    """Return the first island's question."""
    talk = desk.talk(standing)
    return talk, AskPurpose.ISLAND, talk.message(AskPurpose.ISLAND, population=[])


def propose(desk: Desk, standing: Standing) -> Iterator[Sketch]:
    """Yield a sketch of each island in each round."""
    settings = desk.search.islands
    islands: list[list[Draft]] = [[] for _ in range(settings.islands)]
    draws = count()
    for number in range(1, settings.rounds + 1):
        for island in islands:
            shown = desk.best(island)[:SHOWN][::-1]
            talk = desk.talk(standing, draw=next(draws))
            draft = yield from talk.drafted(AskPurpose.ISLAND, population=shown)
            island += [draft] if draft else []
        if number % settings.migration == 0:
            migrate(desk, islands)


def migrate(desk: Desk, islands: list[list[Draft]]) -> None:
    """Give each island the best of the one before it, in a ring; all move at once."""
    best = [desk.best(island)[:1] for island in islands]
    for island, moving in zip(islands, [best[-1], *best[:-1]], strict=True):
        known = {member.candidate.program.value_digest for member in island}
        island += [draft for draft in moving if draft.candidate.program.value_digest not in known]
