"""Rule weigh_probes: cost models of chosen probes, and of the sweep."""

from overlayccl_core.rule import Rule

RULE = Rule(place=25, target="probing")
