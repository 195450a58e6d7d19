"""Rule redeploy_choose: the choice among them, by the bench."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=31, of=("problem",), like="choose", target="redeploy", plugins=(PlugIns.DEPLOYED,))
