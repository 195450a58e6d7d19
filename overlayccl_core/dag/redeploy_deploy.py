"""Rule redeploy_deploy: the standing modules, published in the folder of the target."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=33, like="deploy", target="redeploy", plugins=(PlugIns.DEPLOYED,))
