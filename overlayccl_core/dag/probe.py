"""Rule probe: timed probes to fit and judge the cost model."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Programs, Rule

RULE = Rule(
    place=4,
    measures=True,
    programs=Programs.PROBES,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.probe.seconds, start_s=BATCH_S),
)
