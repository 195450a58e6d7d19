"""What a run decided of its Problems, as whatever trains the deployed files finds it."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.measuring.arms import ArmName, at_case
from overlayccl_core.program.case import problem_of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What was decided of a Problem: its tables finalists and choice, and the source of the deployed file."""

    finalists: pl.DataFrame
    choice: pl.DataFrame
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Steps and stamps of training, of all models: they say what is worth training again."""

    steps: pl.DataFrame
    stamps: pl.DataFrame


def rows_of(decided: Decided) -> list[Row]:
    """The rows of `finalists`, and one of what is deployed at each Case and direction."""
    listed = list(decided.finalists.iter_rows(named=True))
    deployed = []
    for choice in decided.choice.iter_rows(named=True):
        here = {r["arm"]: r for r in listed if all(r[k] == choice[k] for k in ("case", "direction"))}
        mine = at_case(here, choice["arm"], problem_of(choice["case"]))
        assert mine is not None  # it was chosen among these
        deployed.append({**mine, "arm": ArmName.DEPLOYED})
    return [*listed, *deployed]
