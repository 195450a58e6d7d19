"""Rule ablation_page: the page of searches side by side."""

from overlayccl_core.rule import Rule

RULE = Rule(place=22, target="ablations", shows=True)
