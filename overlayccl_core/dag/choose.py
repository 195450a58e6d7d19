"""Rule choose: the choice of an arm to deploy for a Problem."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=13, of=("problem",), plugins=(PlugIns.DEPLOYED,))
