"""Rule trial: a language model's proven sketches, run once."""

from overlayccl_core.configuration.searches import MENDED
from overlayccl_core.rule import LAUNCH_S, RANKS, Budget, Programs, Rule

RULE = Rule(
    place=8,
    of=("problem", "search"),
    second_round=MENDED,
    measures=True,
    programs=Programs.UNCOUNTED,
    plugins=RANKS,
    budget=Budget(launches=1, start_s=LAUNCH_S),
)
