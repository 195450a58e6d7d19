"""Rule deploy: what stands after all launches is published."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=15, plugins=(PlugIns.DEPLOYED,))
