"""The cost model without some of its columns, fitted again and judged on the same Programs."""

from overlayccl_core.tables.table import Table, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR

CANDIDATES_JUDGED = (
    integer("n", doc="Programs compared"),
    number("median_rel_error", doc="median of |predicted / measured - 1|"),
    REPEAT_ERROR,
    number("pair_accuracy", nullable=True, doc="of `pairs`, in the right order; null: there are none"),
    integer("pairs", doc="pairs (of candidates: of one Case) further apart than two standard errors"),
    number("top1_regret", nullable=True, doc="as in `fidelity`, median over Cases; null: held-out Programs"),
    number("mean_regret", nullable=True, doc="mean of the same"),
    FINGERPRINT,
)
PRICE_ABLATIONS = Table(
    name="price_ablations",
    row="the cost model without one part, judged on held-out Programs or on the candidates of all benches",
    rule="price_ablation",
    version=1,
    columns=(
        text("without", doc="a term of prices, `tiers` (near and far cost the same), or nothing"),
        text("judged_on", values=("heldout", "candidates"), doc="no Program of either is in the fit"),
        *CANDIDATES_JUDGED,
    ),
)
