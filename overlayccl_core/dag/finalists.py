"""Rule finalists: what is trained of a Problem."""

from overlayccl_core.rule import Rule

RULE = Rule(place=11, of=("problem",))
