"""Rule losses: the losses of all long courses."""

from overlayccl_core.rule import Rule

RULE = Rule(place=20, target="longrun")
