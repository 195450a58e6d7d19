"""Rule shortlist: what is timed of a Problem."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=9, of=("problem",), plugins=(PlugIns.BACKEND,))
