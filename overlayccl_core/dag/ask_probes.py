"""Rule ask_probes: probes chosen by a language model."""

from overlayccl_core.rule import BATCH_S, RANKS, Budget, PlugIns, Rule

RULE = Rule(
    place=23,
    of=("search",),
    target="probing",
    measures=True,
    plugins=(*RANKS, PlugIns.PROPOSER),
    budget=lambda settings, _models: Budget(
        launches=settings.probing.turns,
        measuring_s=settings.probing.seconds,
        start_s=settings.probing.turns * BATCH_S,
    ),
)
