"""Rule time_parts: training steps of the arms between the developer's calls and the deployed ones."""

from typing import Any

from overlayccl_core.rule import GRADIENTS_S, LAUNCH_S, RANKS, Budget, PlugIns, Rule


def _budget(settings: Any, models: int) -> Budget:
    of = settings.decompose
    return Budget(
        launches=of.minimum_launches,
        measuring_s=of.minimum_launches * of.seconds,
        start_s=of.minimum_launches * LAUNCH_S + GRADIENTS_S,
    )


RULE = Rule(
    place=36,
    of=("model",),
    target="decompose",
    measures=True,
    plugins=(*RANKS, PlugIns.MODEL),
    budget=_budget,
)
