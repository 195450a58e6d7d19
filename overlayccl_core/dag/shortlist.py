"""Rule shortlist: the Programs of a Problem to time."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=9, of=("problem",), plugins=(PlugIns.BACKEND,))
