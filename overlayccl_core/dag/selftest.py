"""Rule selftest: correct results on the ranks, and the capabilities of their library."""

from overlayccl_core.rule import LAUNCH_S, RANKS, Budget, Programs, Rule

RULE = Rule(
    place=2,
    measures=True,
    programs=Programs.PRIMITIVES,
    plugins=RANKS,
    budget=Budget(launches=4, start_s=4 * LAUNCH_S),  # at least: ones, small and large payloads, bits
)
