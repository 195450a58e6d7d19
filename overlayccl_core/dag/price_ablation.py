"""Rule price_ablation: the cost model without some of its columns."""

from overlayccl_core.rule import Budget, Rule

RULE = Rule(place=15, shows=True, budget=Budget(start_s=20.0))
