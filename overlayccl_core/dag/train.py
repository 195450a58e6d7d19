"""Rule train: steps of all arms of a model."""

from overlayccl_core.rule import GRADIENTS_S, LAUNCH_S, LOSSES_S, RANKS, Budget, PlugIns, Programs, Rule

RULE = Rule(
    place=12,
    of=("model",),
    measures=True,
    programs=Programs.UNCOUNTED,
    plugins=(*RANKS, PlugIns.MODEL),
    budget=lambda settings, _models: Budget(
        launches=settings.train.launches,
        measuring_s=settings.train.launches * settings.train.seconds,
        start_s=settings.train.launches * LAUNCH_S + GRADIENTS_S + LOSSES_S,
    ),
)
