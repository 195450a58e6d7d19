"""Rule cases: the Cases of a Problem."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=1, of=("problem",), plugins=(PlugIns.INVOLVED, PlugIns.WORKLOADS))
