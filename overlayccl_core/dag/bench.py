"""Rule bench: the shortlist of a Problem, timed."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Programs, Rule

RULE = Rule(
    place=10,
    of=("problem",),
    measures=True,
    programs=Programs.SHORTLISTS,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.bench.seconds, start_s=BATCH_S),
)
