"""Rule finalists: the candidates of a Problem to train."""

from overlayccl_core.rule import Rule

RULE = Rule(place=11, of=("problem",))
