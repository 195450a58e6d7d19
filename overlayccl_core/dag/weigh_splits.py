"""Rule weigh_splits: steps by the number of microbatches, as a table and a page."""

from overlayccl_core.rule import Rule

RULE = Rule(place=38, target="sweep_m")
