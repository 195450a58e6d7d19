"""Tables of the target `ablations`: searches side by side, by their finds after numbers of evaluations."""

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM
from overlayccl_core.tables.table import Table, flag, integer, number, text, texts
from overlayccl_core.tables.timing_columns import FINGERPRINT

_ARM = (text("arm", doc="a file in config/searches"), integer("seed", doc="of the search"))
_PRICED = integer("priced", doc="of them: new Programs; the others were known already")

ABLATION_CURVES = Table(
    name="ablation_curves",
    row="one evaluation of a search with a cheaper Program than before, or its last evaluation",
    folder="ablations/",
    rule="ablation",
    version=1,
    columns=(
        *_ARM,
        PROBLEM,
        CASE,
        DIRECTION,
        integer("evaluations", doc="so far: proposals with a priced Program, new or known, from any source"),
        _PRICED,
        number("best_us", doc="the cheapest price so far x"),
        number(
            "relative",
            doc="best_us over the cheapest of all searches there; 1: no search found a cheaper one",
        ),
        FINGERPRINT,
    ),
)
ABLATIONS = Table(
    name="ablations",
    row="one search at one seed, over all Problems",
    folder="ablations/",
    rule="ablation",
    version=2,
    columns=(
        *_ARM,
        integer("places", doc="searched Cases and directions"),
        integer("evaluations", doc="as in `ablation_curves`, at all places together"),
        _PRICED,
        integer("families", doc="of Programs free to be chosen, counted at each place, all places together"),
        number("relative", doc="at its end, geometric mean over places"),
        number(
            "relative_at_equal",
            doc="the same, with every search cut at each place to the fewest evaluations of any search there",
        ),
        texts(
            "made_by",
            doc="source of its answers, as in `calls`; nobody: it asked in vain; empty: it asks nobody",
        ),
        number("usd", nullable=True, doc="of its calls; null: none, or not known"),
        number(
            "seconds", nullable=True, doc="of its jobs, of all Problems, beside other jobs; null: not known"
        ),
        FINGERPRINT,
    ),
)
ABLATION_PLACES = Table(
    name="ablation_places",
    row="one search at one seed, at one Case and direction",
    folder="ablations/",
    rule="ablation",
    version=1,
    columns=(
        *_ARM,
        PROBLEM,
        CASE,
        DIRECTION,
        integer("evaluations", doc="as in `ablation_curves`, at the end"),
        number("relative", doc="as in `ablation_curves`, at the end"),
        flag("found", doc="whether it found a cheaper Program than the one that it began with"),
        integer(
            "near_after", nullable=True, doc="evaluations until `relative` was at most 1.05; null: never"
        ),
        FINGERPRINT,
    ),
)
