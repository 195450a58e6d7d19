"""Rule price: prices of every known way, by the cost model."""

from overlayccl_core.rule import Rule

RULE = Rule(place=6, of=("problem",))
