"""Rule price: what the cost model says of every known way."""

from overlayccl_core.rule import Rule

RULE = Rule(place=6, of=("problem",))
