"""What a job of a rule is given before it begins: seconds of measuring by the configuration, and what comes on top.

What comes on top is rounded to 5 s, of four ranks on two cores: a batch starts ranks, builds modules and
calibrates; a training launch starts ranks, and takes steps that are not timed; the first one of a model compares
gradients, and where a choice is made, losses. Compiling is not in it. It is a first guess: a finished run tells its
own times.
"""

from dataclasses import dataclass
from typing import Any

BATCH_S = 15.0
LAUNCH_S = 5.0
GRADIENTS_S, LOSSES_S = 5.0, 10.0
WITHOUT_BUDGET_S = {"selftest": 20.0, "search": 20.0, "ablation_search": 20.0, "report": 8.0}
ANY_OTHER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A job: how often it starts ranks, seconds of timing in these launches together, and all other seconds."""

    launches: int
    measuring_s: float
    start_s: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.measuring_s + self.start_s


def of_launches(launches: int) -> Budget:
    """A job that starts ranks so often and times nothing to speak of."""
    return Budget(launches=launches, measuring_s=0.0, start_s=launches * LAUNCH_S)


def budget_of(rule: str, settings: Any, models: int) -> Budget:
    """The budget of one job of a rule. settings: those that the rule declares. models: how many are configured."""
    if rule == "confirm":
        of, launches = settings.confirm, settings.confirm.launches
        return Budget(
            launches=launches * (1 + models),
            measuring_s=launches * (of.seconds + models * of.step_seconds),
            start_s=launches * (BATCH_S + models * LAUNCH_S) + models * GRADIENTS_S,
        )
    if rule == "train":
        launches = settings.train.launches
        return Budget(
            launches=launches,
            measuring_s=launches * settings.train.seconds,
            start_s=launches * LAUNCH_S + GRADIENTS_S + LOSSES_S,
        )
    if rule == "ask_probes":
        of = settings.probing
        return Budget(launches=of.turns, measuring_s=of.seconds, start_s=of.turns * BATCH_S)
    if rule == "time_probes":
        measuring_s = settings.probe.seconds + settings.probing.seconds
        return Budget(launches=1, measuring_s=measuring_s, start_s=BATCH_S)
    if rule == "trial":
        return of_launches(1)
    if rule in ("probe", "bench"):
        return Budget(launches=1, measuring_s=getattr(settings, rule).seconds, start_s=BATCH_S)
    return Budget(
        launches=int(rule == "selftest"), measuring_s=0.0, start_s=WITHOUT_BUDGET_S.get(rule, ANY_OTHER_S)
    )
