"""Rule time_probes: the sweep and the models' choices, in one launch."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Rule

RULE = Rule(
    place=24,
    target="probing",
    measures=True,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(
        launches=1, measuring_s=settings.probe.seconds + settings.probing.seconds, start_s=BATCH_S
    ),
)
