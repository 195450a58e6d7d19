"""Rule regret: another tree's choices beside this run's own."""

from overlayccl_core.rule import Rule

RULE = Rule(place=34, target="redeploy")
