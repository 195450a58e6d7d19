"""The ending of a search, as data and as a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from overlayccl_core.configuration.searches import Search
from overlayccl_core.program.case import Case
from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.loop import SearchResult, SearchStop
from overlayccl_core.search.proposal import ProposalOutcome


class Nothing(StrEnum):
    """Why nothing was searched."""

    NO_EXCHANGE = "no_exchange"
    NO_BASE = "no_base"
    NONE_FAILED = "none_failed"


_NOTHING = {
    Nothing.NO_EXCHANGE: "nothing to search: the identity, which needs no exchange",
    Nothing.NO_BASE: "nothing to search from: no strategy of its library is right",
    Nothing.NONE_FAILED: "nothing to mend: no sketch failed on the ranks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a search of one Case and direction ended, its results, and one sentence with all of it.

    Attributes:
        sketched, sketched_twice: Proposed sketches, and known ones among them.
    """

    why: SearchStop | Nothing
    proposals: int = 0
    programs: int = 0  # those priced at the Case itself
    families: int = 0  # those of its elites
    sketched: int = 0
    sketched_twice: int = 0
    polished: bool | None = None  # whether rules beat the cheapest sketch; None if no sketch has a price
    message: str


def without_search(why: Nothing) -> Ending:
    """Return the ending if no search began."""
    return Ending(why=why, message=_NOTHING[why])


def ending_of(result: SearchResult, named: Mapping[str, str], search: Search, small: Case | None) -> Ending:
    """Return the ending of a search. named: names by Program; small: the Case searched in its place."""
    families = len({c.family for c in result.elites})
    sketched = [attempt for attempt in result.attempts if attempt.sketch is not None]
    stop = result.explored.stop
    said = f"{len(result.candidates)} Programs of {families} families in {result.explored.rounds} rounds"
    if small is not None:
        said += f" at {small.id}, replayed"
    said += f"; ended: {stop.value.replace('_', ' ')}"
    if stop is SearchStop.PROPOSER_FAILED:
        said += f" ({search.proposer}: {result.explored.failure})"
    elif stop is not SearchStop.NO_NEW_ELITE:
        said += f" (cut: raise `{stop.value}` in {search.file.as_posix()})"
    return Ending(
        why=stop,
        proposals=len(result.attempts),
        programs=len(result.candidates),
        families=families,
        sketched=len(sketched),
        sketched_twice=sum(attempt.outcome is ProposalOutcome.DUPLICATE for attempt in sketched),
        polished=_polished(result),
        message=f"{said}; {_cheapest(result, named)}",
    )


def _polished(result: SearchResult) -> bool | None:
    """Return whether rule steps made any sketch cheaper than the cheapest bare one."""
    written = [c for c in result.candidates if c.recipe.of_source and c.us < inf and c.feasible]
    plain = min((c.us for c in written if not c.recipe.steps), default=None)
    return None if plain is None else any(c.us < plain for c in written if c.recipe.steps)


def _cheapest(result: SearchResult, named: Mapping[str, str]) -> str:
    best = result.best
    if best is None:
        return "none is proven"
    said = f"cheapest: {named[best.program.digest]} ({best.family})"
    if best.price.us is None:
        return f"{said}, without a price: the probes here do not tell {', '.join(best.price.missing)}"
    said = f"{said}, {best.us:.0f} us"
    developer = next((c.us for c in result.candidates if c.origin is Origin.DEVELOPER), inf)
    return said if developer == inf else f"{said} where developer has {developer:.0f}"
