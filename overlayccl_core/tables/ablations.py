"""Tables of the target `ablations`: searches side by side, by their finds after numbers of evaluations."""

import polars as pl

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT

_ARM = (
    Column(name="arm", dtype=pl.String(), doc="a file in config/searches"),
    Column(name="seed", dtype=pl.Int64(), doc="of the search"),
)
_PRICED = Column(name="priced", dtype=pl.Int64(), doc="of them: new Programs; the others were known already")

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
        Column(
            name="evaluations",
            dtype=pl.Int64(),
            doc="so far: proposals with a priced Program, new or known, from any source",
        ),
        _PRICED,
        Column(
            name="best_us",
            dtype=pl.Float64(),
            unit="us",
            doc="the cheapest price so far x",
        ),
        Column(
            name="relative",
            dtype=pl.Float64(),
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
    version=1,
    columns=(
        *_ARM,
        Column(name="places", dtype=pl.Int64(), doc="searched Cases and directions"),
        Column(name="evaluations", dtype=pl.Int64(), doc="as in `ablation_curves`, at all places together"),
        _PRICED,
        Column(
            name="families",
            dtype=pl.Int64(),
            doc="of Programs free to be chosen, counted at each place, all places together",
        ),
        Column(name="relative", dtype=pl.Float64(), doc="at its end, geometric mean over places"),
        Column(
            name="relative_at_equal",
            dtype=pl.Float64(),
            doc="the same, with every search cut at each place to the fewest evaluations of any search there",
        ),
        Column(
            name="made_by",
            dtype=pl.List(pl.String()),
            doc="source of its answers, as in `calls`; nobody: it asked in vain; empty: it asks nobody",
        ),
        Column(name="usd", dtype=pl.Float64(), nullable=True, doc="of its calls; null: none, or not known"),
        FINGERPRINT,
    ),
)
