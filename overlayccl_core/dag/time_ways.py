"""Rule time_ways: all proven ways of single calls, in one launch."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=33,
    target="tune",
    measures=True,
    plugins=(*RANKS, PlugIns.CAPTURED, PlugIns.REWRITES),
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.tune.seconds, start_s=BATCH_S),
)
