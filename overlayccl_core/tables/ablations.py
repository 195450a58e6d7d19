"""What the target `ablations` leaves: searches side by side, by what they found after how many evaluations."""

import polars as pl

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

_ARM = (
    Column(name="arm", dtype=pl.String(), doc="a file in config/searches"),
    Column(name="seed", dtype=pl.Int64(), doc="of the search"),
)
_PRICED = Column(
    name="priced", dtype=pl.Int64(), doc="of them: Programs that were new, the others were known already"
)

ABLATION_CURVES = Table(
    name="ablation_curves",
    row="one evaluation at which a search found a cheaper Program than before, and its last one",
    folder="ablations/",
    rule="ablation",
    version=1,
    columns=(
        *_ARM,
        PROBLEM,
        CASE,
        DIRECTION,
        Column(
            name="evaluations",
            dtype=pl.Int64(),
            doc="so far: proposals that came to a Program with a price, new or known, whoever made them",
        ),
        _PRICED,
        Column(
            name="best_us",
            dtype=pl.Float64(),
            unit="us",
            doc="the cheapest price so far of what may be chosen: not infeasible, not shown wrong, no fewer bits "
            "than developer has",
        ),
        Column(
            name="relative",
            dtype=pl.Float64(),
            doc="best_us over the cheapest that any of the searches found there; 1: nobody found a cheaper one",
        ),
        FINGERPRINT,
    ),
)
ABLATIONS = Table(
    name="ablations",
    row="one search at one seed, over all Problems",
    folder="ablations/",
    rule="ablation",
    version=1,
    columns=(
        *_ARM,
        Column(name="places", dtype=pl.Int64(), doc="Cases and directions that it searched"),
        Column(name="evaluations", dtype=pl.Int64(), doc="as in `ablation_curves`, at all places together"),
        _PRICED,
        Column(
            name="families",
            dtype=pl.Int64(),
            doc="of what may be chosen, at each place, all places together",
        ),
        Column(name="relative", dtype=pl.Float64(), doc="at its end, geometric mean over places"),
        Column(
            name="relative_at_equal",
            dtype=pl.Float64(),
            doc="the same after as many evaluations at each place as the search had that made the fewest there",
        ),
        Column(
            name="made_by",
            dtype=pl.List(pl.String()),
            doc="who answered it, as in `calls`; nobody: it asked in vain; empty: it asks nobody",
        ),
        Column(name="usd", dtype=pl.Float64(), nullable=True, doc="of its calls; null: none, or not known"),
        FINGERPRINT,
    ),
)
