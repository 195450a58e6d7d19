"""Rule confirm: the chosen files, timed again in fresh launches."""

from typing import Any

from overlayccl_core.rule import BATCH_S, GRADIENTS_S, LAUNCH_S, RANKS, Budget, PlugIns, Programs, Rule


def _budget(settings: Any, models: int) -> Budget:
    of, times = settings.confirm, settings.confirm.launches
    return Budget(
        launches=times * (1 + models),
        measuring_s=times * (of.seconds + models * of.step_seconds),
        start_s=times * (BATCH_S + models * LAUNCH_S) + models * GRADIENTS_S,
    )


RULE = Rule(
    place=14,
    measures=True,
    programs=Programs.UNCOUNTED,
    plugins=(*RANKS, PlugIns.MODEL, PlugIns.DEPLOYED),
    budget=_budget,
)
