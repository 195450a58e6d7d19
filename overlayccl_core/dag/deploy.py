"""Rule deploy: the modules still standing after all launches are published."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=15, plugins=(PlugIns.DEPLOYED,))
