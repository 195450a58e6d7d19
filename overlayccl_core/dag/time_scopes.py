"""Rule time_scopes: the Programs of trained arms, alone and beside a running matmul."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, Rule

RULE = Rule(
    place=28,
    target="scopes",
    measures=True,
    plugins=RANKS,
    budget=lambda settings, _models: Budget(launches=1, measuring_s=settings.scopes.seconds, start_s=BATCH_S),
)
