"""Access to an archived job's options and tables, and comparison of rows with the expected ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration import deployment as deployments
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.choices import ProblemChoice
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.table import Table, read

NAMED = 3  # rows named in a message
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A deviation. open: an honest run may have it, and no table tells why."""

    message: str
    open: bool = False


class ArchivedJob:
    """An archived job: the options of its command, and its tables in an archive's folder."""

    def __init__(self, folder: Path, job: RuleJob) -> None:
        self._folder = folder
        self._job = job
        self.option = job.option

    @cached_property
    def deployment(self) -> Deployment:
        return deployments.load(self._folder / self.option("deployment"))

    @cached_property
    def settings(self) -> Settings:
        return Settings.from_part(self.option("settings"))

    def model(self, name: str) -> models.Model:
        return models.load(name, self._folder / models.FOLDER)

    def file(self, name: str, of: str = "") -> Path:
        """Return the input or output of a name; of several, the one below a folder called `of`."""
        paths = (*self._job.inputs.get(name, ()), *self._job.outputs.get(name, ()))
        return self._folder / next(path for path in paths if not of or of in path.parts)

    def table(self, table: Table, of: str = "") -> pl.DataFrame:
        return read(table, self.file(table.name, of))

    def rows(self, table: Table, of: str = "") -> list[Row]:
        return list(self.table(table, of).iter_rows(named=True))

    def decided(self) -> dict[str, ProblemChoice]:
        return {
            problem: ProblemChoice(
                finalists=self.table(FINALISTS, problem),
                choice=self.table(CHOICE, problem),
                module=self.file("chosen", problem).read_text(),
            )
            for problem in self.option("problems").split(",")
        }


def compared(
    wanted: Iterable[tuple[Any, ...]],
    there: Iterable[tuple[Any, ...]],
    allowed: Iterable[tuple[Any, ...]] = (),
) -> Iterator[Odd]:
    """Report missing rows and unexpected rows. allowed: optional ones."""
    wanted, there = set(wanted), set(there)
    if lacking := wanted - there:
        yield Odd(message=f"no row of {_named(lacking)}, which ought to have been measured")
    if more := there - wanted - set(allowed):
        yield Odd(message=f"rows of {_named(more)}, which nobody asked for")


def once(there: Iterable[tuple[Any, ...]]) -> Iterator[Odd]:
    if twice := {one for one, count in Counter(there).items() if count > 1}:
        yield Odd(message=f"more than one row of {_named(twice)}")


def _named(those: Iterable[tuple[Any, ...]]) -> str:
    told = sorted(" ".join(map(str, one)) for one in those)
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return f"{', '.join(told[:NAMED])}{more}"
