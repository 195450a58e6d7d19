"""The cost model's price of each known way, by term."""

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION
from overlayccl_core.tables.table import Table, flag, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

US = ("predicted_us", "low_us", "high_us")
TERMS_US = {  # column -> meaning of the term, also used in the report
    "launch_us": "the start of the module and of its graphs",
    "collectives_us": "library calls issued alone, with their bytes and waits",
    "amortization_us": "library calls issued while others are in flight",
    "copies_us": "local packing and unpacking",
    "network_us": "bytes through a node's network card, where there are several nodes",
}
PRICE_COLUMNS = tuple(
    number(name, nullable=True, doc=f"{of}; null: no price")
    for name, of in (dict.fromkeys(US, "all terms together") | TERMS_US).items()
)

PRICES = Table(
    name="prices",
    row="one strategy of the library at one Case and direction",
    folder="problems/<problem>/",
    rule="price",
    version=2,
    columns=(
        CASE,
        DIRECTION,
        text("strategy", doc="of the library"),
        text("program", doc="digest"),
        flag("feasible", doc="legal and proven, so that it may be chosen"),
        text("reason", doc="why it is not feasible or has no price; ok"),
        *PRICE_COLUMNS,
        FINGERPRINT,
    ),
)
