"""Rule redeployed: another tree's choices, replayed and proven here."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(
    place=27,
    of=("problem",),
    target="redeploy",
    plugins=(PlugIns.INVOLVED, PlugIns.STRATEGIES, PlugIns.REWRITES),
)
