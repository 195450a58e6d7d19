"""Tables of the target `tune`: all proven ways of single calls, and who finds the fastest in how many seconds."""

from enum import StrEnum

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, CASE, NUMERICS, PROBLEM, ratio
from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, TIMING_COLUMNS


class TunerName(StrEnum):
    """Who looks for the fastest way."""

    HYPERBAND = "hyperband"
    DESCENT = "descent"
    RANDOM = "random"
    GRID = "grid"
    PRICE = "price"


TIMED_WAYS = Table(
    name="timed_ways",
    row="one launch of one proven way of a call",
    folder="tune/",
    rule="time_ways",
    version=2,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY,
        text("family", doc="the known way that it is made of"),
        integer("parts", doc="into how many calls in flight each of its calls is split"),
        text("recipe", doc="JSON"),
        NUMERICS,
        flag("again", doc="of the second launch, which has each call's own way and its fastest others alone"),
        *TIMING_COLUMNS,
    ),
)
TUNER_CURVES = Table(
    name="tuner_curves",
    row="one tuner at one call after one budget of seconds",
    folder="tune/",
    rule="weigh_tuners",
    version=1,
    columns=(
        CASE,
        text(
            "tuner",
            values=tuple(TunerName),
            doc="price: the cheapest by the cost model, which measures nothing",
        ),
        integer("seeds", doc="courses, each with rounds of its own"),
        number("looks", doc="the budget over the seconds of one sample of each way"),
        number("seconds", doc="the budget: of samples"),
        number("samples", doc="taken by then, median over seeds"),
        number("regret", doc="of the way named then: its time over the fastest's, less 1; median over seeds"),
        number("regret_p90", doc="the same, 90% quantile over seeds"),
        FINGERPRINT,
    ),
)
TUNED_CALLS = Table(
    name="tuned_calls",
    row="one call",
    folder="tune/",
    rule="weigh_tuners",
    version=2,
    columns=(
        CASE,
        integer("ways", doc="proven ways, its own among them"),
        integer("families", doc="known ways that they are made of"),
        integer(
            "rounds",
            doc="of each way in the first launch: tuners see the odd ones, figures come from the even ones",
        ),
        integer("again_rounds", doc="of its own and the fastest ways in the second launch"),
        number("plain_us", doc="its own call"),
        number("fastest_us", doc="the fastest way"),
        text("fastest", doc="that way"),
        text("cheapest", nullable=True, doc="the way with the least price; null: a way has no price"),
        text("found", doc="the best by the odd rounds of the second launch"),
        *ratio("gain", doc="of plain over that, in the even rounds of the second launch"),
        text("chosen", doc="found, if that gain is beyond noise, else plain"),
        flag("disturbed", doc="others took too much of the CPU: nothing but plain is chosen"),
        number(
            "regret", doc="of the best by all odd rounds of the first launch: no tuner can be asked for less"
        ),
        *ratio("both_gain", doc="of plain over that way, in the even rounds of the first launch"),
        *ratio("family_gain", doc="the same, over the best whole call (parts: 1)"),
        *ratio("parts_gain", doc="the same, over the best of the call's own family"),
        *ratio("interaction", doc="both_gain over the product of the other two; 1: the gains multiply"),
        FINGERPRINT,
    ),
)
