"""Rule segments: times of a model's segments, without any call."""

from overlayccl_core.rule import LAUNCH_S, RANKS, Budget, PlugIns, Programs, Rule

RULE = Rule(
    place=4,
    of=("model",),
    measures=True,
    programs=Programs.UNCOUNTED,
    plugins=(*RANKS, PlugIns.MODEL),
    budget=Budget(launches=1, measuring_s=5.0, start_s=LAUNCH_S),
)
