"""Rule redeploy_shortlist: another tree's choices beside the known ways, to time."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=28, of=("problem",), like="shortlist", target="redeploy", plugins=(PlugIns.BACKEND,))
