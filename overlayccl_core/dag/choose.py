"""Rule choose: what is to be deployed of a Problem."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=13, of=("problem",), plugins=(PlugIns.DEPLOYED,))
