"""Rule train_splits: the arms of a model at all its numbers of microbatches."""

from overlayccl_core.rule import GRADIENTS_S, LAUNCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=37,
    of=("model",),
    target="sweep_m",
    measures=True,
    plugins=(*RANKS, PlugIns.MODEL),
    budget=lambda settings, _models: Budget(
        launches=settings.sweep_m.launches,
        measuring_s=settings.sweep_m.launches * settings.sweep_m.seconds,
        start_s=settings.sweep_m.launches * LAUNCH_S + GRADIENTS_S,
    ),
)
