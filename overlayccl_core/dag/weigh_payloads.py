"""Rule weigh_payloads: what is fastest at each payload, as a table and a page."""

from overlayccl_core.rule import PlugIns, Rule

RULE = Rule(place=36, target="sweep_payload", plugins=(PlugIns.SWEPT,))
