"""Rule ablation_search: a search to be compared."""

from overlayccl_core.rule import Budget, Rule

RULE = Rule(
    place=20,
    of=("problem", "search"),
    target="ablations",
    budget=lambda _settings, _models: Budget(start_s=20.0),
)
