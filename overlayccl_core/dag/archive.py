"""Rule archive: one file that others can check."""

from overlayccl_core.rule import Rule

RULE = Rule(place=18, target="archive")
