"""Rule deploy: the standing modules are published, after all launches."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=15, plugins=(PlugIns.DEPLOYED,))
