"""The ranking of Programs in a search: by price, or by their calls, without the cost model.

A ranking has the form of a price, so every proposer and the loop work with it as they are. At the end the Programs
get their prices, and the search keeps what it chose by its ranking.
"""

from dataclasses import replace

from overlayccl_core.configuration.searches import RankedBy, Search
from overlayccl_core.costmodel.price import Price
from overlayccl_core.program.program import Program
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.judge import Pricing
from overlayccl_core.search.loop import SearchResult


def ranking(search: Search, pricing: Pricing) -> Pricing:
    """Return what a search ranks Programs by, lower is better: `pricing`, or the number of their calls."""
    return pricing if search.ranked_by is RankedBy.PRICE else _calls


def priced(result: SearchResult, search: Search, pricing: Pricing) -> SearchResult:
    """Return the result of a search with the prices of its Programs in place of their ranks."""
    if search.ranked_by is RankedBy.PRICE:
        return result
    now = {id(one): replace(one, price=pricing(one.program)) for one in result.candidates}

    def of(candidate: Candidate) -> Candidate:
        return now[id(candidate)]

    return replace(
        result,
        candidates=[of(one) for one in result.candidates],
        elites=[of(one) for one in result.elites],
        best=None if result.best is None else of(result.best),
    )


def _calls(program: Program) -> Price:
    calls = float(len(program.calls))
    return Price(us=calls, low_us=calls, high_us=calls, terms={})
