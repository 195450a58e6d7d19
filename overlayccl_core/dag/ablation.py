"""Rule ablation: searches side by side."""

from overlayccl_core.rule import Rule

RULE = Rule(place=21, target="ablations")
