"""Prices in the step: of what is shortlisted, and of trained arms beside their measured steps."""

from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY
from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR

_MODEL = text("model", doc="a file in config/models")
_MICROBATCHES = integer("microbatches", doc="into which a batch is split")
_STEP = number("step_us", nullable=True, doc="price of the step; null: no times of its segments or calls")

STEP_PRICES = Table(
    name="step_prices",
    row="one candidate of the shortlist in the step of one model at one count of microbatches",
    folder="problems/<problem>/",
    rule="finalists",
    version=1,
    minimum_rows=0,
    columns=(
        *CANDIDATE_KEY,
        _MODEL,
        _MICROBATCHES,
        flag("overlaps", doc="calls are in flight while the model computes"),
        number("predicted_us", nullable=True, doc="price of the candidate by itself; null: no price"),
        _STEP,
        FINGERPRINT,
    ),
)
ARM_PRICES = Table(
    name="arm_prices",
    row="one trained arm of a model at one count of microbatches",
    folder="train/<model>/",
    rule="step_fidelity",
    version=1,
    minimum_rows=0,
    columns=(
        _MODEL,
        _MICROBATCHES,
        text("arm", doc="as in `steps`"),
        _STEP,
        number("measured_us", doc="25% trimmed mean of its steps, in the launches that all arms ran in"),
        number("standard_error_us", doc="of measured_us"),
        FINGERPRINT,
    ),
)
STEP_FIDELITY = Table(
    name="step_fidelity",
    row="one model",
    folder="train/<model>/",
    rule="step_fidelity",
    version=1,
    minimum_rows=0,
    columns=(
        _MODEL,
        integer("n", doc="arms with a price, at all counts of microbatches"),
        number("order_apart", nullable=True, doc="rank correlation over pairs apart; null: too few arms"),
        number("pair_accuracy", nullable=True, doc="of `pairs`; null: there are none"),
        integer("pairs", doc="pairs further apart than two standard errors"),
        number("median_rel_error", doc="median of |predicted / measured - 1|"),
        REPEAT_ERROR,
        FINGERPRINT,
    ),
)
