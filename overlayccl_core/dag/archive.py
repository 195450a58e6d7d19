"""Rule archive: one file for others to check."""

from overlayccl_core.rule import Rule

RULE = Rule(place=18, target="archive", packs=True)
