"""Rule search: a search for new Programs."""

from overlayccl_core.rule import Budget, PlugIns, Rule

RULE = Rule(
    place=7,
    of=("problem", "search"),
    plugins=(PlugIns.INVOLVED, PlugIns.STRATEGIES, PlugIns.REWRITES, PlugIns.PROPOSER),
    budget=Budget(start_s=20.0),
)
