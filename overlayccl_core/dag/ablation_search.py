"""Rule ablation_search: a search to be compared."""

from overlayccl_core.rule import Budget, Rule

RULE = Rule(
    place=20,
    of=("problem", "search"),
    like="search",
    target="ablations",
    budget=Budget(start_s=40.0),
)
