"""Rule probing_page: the page of probes chosen by models."""

from overlayccl_core.rule import Rule

RULE = Rule(place=26, target="probing", shows=True)
