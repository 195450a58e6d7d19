"""Rule weigh_scopes: where the order outside of the step is another than in it, as tables and a page."""

from overlayccl_core.rule import Rule

RULE = Rule(place=29, target="scopes", shows=True)
