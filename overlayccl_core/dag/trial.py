"""Rule trial: a language model's proven sketches, run once."""

from overlayccl_core.rule import LAUNCH_S, RANKS, Budget, Rule

RULE = Rule(
    place=8,
    of=("problem", "search"),
    measures=True,
    plugins=RANKS,
    budget=lambda _settings, _models: Budget(launches=1, start_s=LAUNCH_S),
)
