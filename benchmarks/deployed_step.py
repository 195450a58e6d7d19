"""The deployed files in a training step, beside the emitted modules of the same Programs: what counters cost.

Of a finished run: `python -m benchmarks deployed_step`. At each model and number of microbatches two arms alone, in
turn, many more steps than a run has time for.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, label
from overlayccl_core.evidence.choices import ProblemChoice, rows_of
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio, paired_ratio
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import read
from overlayccl_core.training.arms import Arms
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import StepSettings

LAUNCHES = 5
SECONDS = 9.0
STEPS = 30
EMITTED = ArmName.FINALIST_1  # as which the emitted modules of what is deployed are trained


def report(tree: Path = Path("results/local")) -> list[str]:
    """A line for each model and number of microbatches: ms of both, and the paired ratio with its 95% interval."""
    deployment = load(Path("config/deployments/local.yaml"))
    decided = {
        path.name: ProblemChoice(
            finalists=read(FINALISTS, path / "finalists.parquet"),
            choice=read(CHOICE, path / "choice.parquet"),
            module=(path / "chosen.py").read_text(),
        )
        for path in sorted((tree / "problems").iterdir())
    }
    lines = [
        "a training step with emitted modules and with the deployed files: ms of both; emitted over deployed"
    ]
    for path in sorted((tree / "train").iterdir()):
        model = models.load(path.name)
        for microbatches in model.microbatches:
            emitted, deployed, ratio = _compared(model, microbatches, deployment, decided)
            lines.append(f"  {label(model.name, microbatches):12s} {emitted:7.1f} {deployed:7.1f}  {ratio}")
    return lines


def _compared(
    model: Model, microbatches: int, deployment: Deployment, decided: dict[str, ProblemChoice]
) -> tuple[float, float, Ratio]:
    """Medians over launches of the median step, ms, and the ratio."""
    arms = Arms(model, deployment, backend_of(deployment), _rows(decided))
    arms.add(microbatches, (EMITTED,), lambda _arm: (Purpose.TIMED,))
    arms.add_deployed(microbatches, {name: one.module for name, one in decided.items()})
    training = arms.training(StepSettings(seconds=SECONDS, minimum_steps=2, maximum_steps=STEPS), LAUNCHES)
    with tempfile.TemporaryDirectory() as folder:
        rows = train(training, Path(folder), "benchmark", "", lambda _line: None)
    steps = {
        arm: [row["steps_us"] for row in rows if row["arm"] == arm] for arm in (EMITTED, ArmName.DEPLOYED)
    }
    ratio = paired_ratio(list(zip(steps[EMITTED], steps[ArmName.DEPLOYED], strict=True)))
    emitted, deployed = (median([median(one) for one in of]) / 1e3 for of in steps.values())
    return emitted, deployed, ratio


def _rows(decided: dict[str, ProblemChoice]) -> Iterator[dict[str, Any]]:
    """The developer's Programs, and the deployed ones as both arms."""
    for one in decided.values():
        for row in rows_of(one):
            if row["arm"] == ArmName.DEVELOPER:
                yield row
            elif row["arm"] == ArmName.DEPLOYED:
                yield row
                yield {**row, "arm": EMITTED}
