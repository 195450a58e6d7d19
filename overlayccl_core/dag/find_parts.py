"""Rule find_parts: the arms between the developer's calls and the deployed ones."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(
    place=35,
    of=("model",),
    target="decompose",
    plugins=(PlugIns.MODEL, PlugIns.STRATEGIES, PlugIns.REWRITES),
)
