"""Rule redeploy_bench: another tree's choices, timed."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Rule

RULE = Rule(
    place=29,
    of=("problem",),
    like="bench",
    target="redeploy",
    measures=True,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.bench.seconds, start_s=BATCH_S),
)
