"""Rule redeploy_confirm: the chosen files, timed again."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=32,
    like="confirm",
    target="redeploy",
    measures=True,
    plugins=(*RANKS, PlugIns.DEPLOYED),
    budget=lambda settings, _models: Budget(
        launches=settings.confirm.launches,
        measuring_s=settings.confirm.launches * settings.confirm.seconds,
        start_s=settings.confirm.launches * BATCH_S,
    ),
)
