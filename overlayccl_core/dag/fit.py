"""Rule fit: the cost model."""

from overlayccl_core.rule import Rule

RULE = Rule(place=5)
