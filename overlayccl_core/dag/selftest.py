"""Rule selftest: correct results on the ranks, and the capabilities of their library."""

from overlayccl_core.rule import RANKS, Budget, Rule

RULE = Rule(
    place=2,
    measures=True,
    plugins=RANKS,
    budget=Budget(launches=1, start_s=20.0),
)
