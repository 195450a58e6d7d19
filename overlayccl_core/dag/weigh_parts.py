"""Rule weigh_parts: what each factor gives of the gain, as a table and a page."""

from overlayccl_core.rule import Rule

RULE = Rule(place=37, target="decompose", shows=True)
