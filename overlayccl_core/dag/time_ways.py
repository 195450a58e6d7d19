"""Rule time_ways: all proven ways of single calls in one launch, the fastest in a second one."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=33,
    target="tune",
    measures=True,
    plugins=(*RANKS, PlugIns.CAPTURED, PlugIns.REWRITES),
    budget=lambda settings, _models: Budget(
        launches=2,
        measuring_s=settings.tune.seconds + settings.tune.again.seconds,
        start_s=2 * BATCH_S,
    ),
)
