"""Rule time_payloads: all proven known ways of a Problem at payloads from small to large."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=35,
    target="sweep_payload",
    measures=True,
    plugins=(*RANKS, PlugIns.SWEPT, PlugIns.REWRITES),
    budget=lambda settings, _models: Budget(
        launches=settings.sweep_payload.launches,
        measuring_s=settings.sweep_payload.launches * settings.sweep_payload.seconds,
        start_s=settings.sweep_payload.launches * BATCH_S,
    ),
)
