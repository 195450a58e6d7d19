"""Rule known_ways: a Problem's strategies, traced and proven."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=3, of=("problem",), plugins=(PlugIns.INVOLVED, PlugIns.STRATEGIES))
