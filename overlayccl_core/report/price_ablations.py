"""What each part of the cost model is worth: prices, order and choice without it."""

from collections.abc import Iterator

from overlayccl_core.report.blocks import Block, Text, percent, table_of
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.tables.price_ablations import PRICE_ABLATIONS

SETS = {"heldout": "held-out mixed Programs", "candidates": "candidates of all benches"}
READING = (
    "The cost model fitted again without each of its terms, and with near and far calls at one price (without "
    "tiers), judged on the same Programs, none of which is in a fit. Regret is of the choice that the model would "
    "make."
)


@sourced
def blocks(tree: Tree) -> Iterator[Block]:
    """Yield a table with the whole model first; nothing if it was not made."""
    rows = tree.table(PRICE_ABLATIONS, PRICE_ABLATIONS.name)
    if rows is None:
        return
    yield Text(text=READING)
    yield table_of(
        "What each part of the cost model is worth",
        rows.sort("judged_on", descending=True, maintain_order=True).iter_rows(named=True),
        {
            "Programs of": lambda row: SETS[row["judged_on"]],
            "without": lambda row: row["without"],
            "Programs": lambda row: str(row["n"]),
            "median error": lambda row: percent(row["median_rel_error"]),
            "repeat error": lambda row: percent(row["repeat_rel_error"]),
            "pairs in the right order": lambda row: percent(row["pair_accuracy"]),
            "median regret": lambda row: percent(row["top1_regret"]),
            "mean regret": lambda row: percent(row["mean_regret"]),
        },
        numeric=frozenset(range(2, 8)),
        folded=True,
    )
