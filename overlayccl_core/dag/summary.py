"""Rule summary: proof, price and measurement side by side."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=16, shows=True, plugins=(PlugIns.PROBLEMS,))
