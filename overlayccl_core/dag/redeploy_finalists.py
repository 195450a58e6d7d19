"""Rule redeploy_finalists: the best of them."""

from overlayccl_core.rule import Rule

RULE = Rule(place=30, of=("problem",), like="finalists", target="redeploy")
