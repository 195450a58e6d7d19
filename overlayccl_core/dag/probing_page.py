"""Rule probing_page: the page of probes that models chose."""

from overlayccl_core.rule import Rule

RULE = Rule(place=26, target="probing", shows=True)
