"""Rule report: the page of a run."""

from overlayccl_core.rule import Budget, Rule

RULE = Rule(place=17, shows=True, budget=Budget(start_s=8.0))
