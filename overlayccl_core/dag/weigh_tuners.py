"""Rule weigh_tuners: tuners on recorded samples, and the best way of each call."""

from overlayccl_core.rule import Budget, PlugIns, Rule

RULE = Rule(
    place=34, target="tune", plugins=(PlugIns.CAPTURED, PlugIns.DEPLOYED), budget=Budget(start_s=120.0)
)
