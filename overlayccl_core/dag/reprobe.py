"""Rule reprobe: some probes timed again, beside what a run knows."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Rule

RULE = Rule(
    place=27,
    target="drift",
    measures=True,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.drift.seconds, start_s=BATCH_S),
)
