"""A run's folder `results/<deployment>` as the report reads it: existing tables, None for missing ones."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import polars as pl

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.report.blocks import Block, Source, with_sources
from overlayccl_core.report.worth import Worth, worths_of
from overlayccl_core.rule import ALL, Rule, Subjects, rules
from overlayccl_core.tables import attempts
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.remake import remake, run_command
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.sidecar import path_of, read_unchanged
from overlayccl_core.tables.table import Table

T = TypeVar("T")
P = ParamSpec("P")
_SETTINGS = "--settings"  # the option of a rule's command with the settings
WITH_SUMMARY = ("summary.parquet", "deployed.parquet", "splits.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """A rule's job, and what it took.

    Attributes:
        last_s: Seconds of the attempt that wrote its tables.
        lost_s: Of the attempts before it that failed, or were cut off.
    """

    name: str
    last_s: float
    lost_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of all attempts."""
        return self.last_s + self.lost_s

    @property
    def rule(self) -> str:
        """The rule: `bench` of `bench-tp_mlp`."""
        return self.name.partition("-")[0]

    @property
    def declared(self) -> Rule:
        """Its rule's declaration. A job that only shows results may have no time yet while the page is drawn."""
        return rules()[self.rule]

    @property
    def subject(self) -> Mapping[str, str]:
        """Its wildcards: `{"model": "nano-dp"}` of `train-nano-dp`."""
        of = self.declared.of
        return dict(zip(of, self.name.split("-", len(of))[1:], strict=True))


def remembered(make: "Callable[[Tree], T]") -> "Callable[[Tree], T]":
    """Decorate a property of a tree: it is made once, and each access counts as reading the tables behind it."""

    @wraps(make)
    def value(tree: "Tree") -> T:
        name = make.__name__
        if name not in tree.kept:
            with tree.reading() as read:
                made = make(tree)
            tree.kept[name] = made, frozenset(read)
        found, sources = tree.kept[name]
        tree.has_read(sources)
        return cast(T, found)

    return value


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One run.

    A damaged or changed table is a ValueError, a missing one None.

    Attributes:
        files: Files to look at, so a page depends only on its rule's declared inputs; None: all existing ones.
        node_usd_per_hour: Price of one of its nodes; None: no money is told.
    """

    path: Path
    files: frozenset[Path] | None = None
    node_usd_per_hour: float | None = None
    kept: dict[str, tuple[object, frozenset[Source]]] = field(default_factory=dict, compare=False, repr=False)
    _open: list[set[Source]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise ValueError(
                f"{self.path}: there is no such folder: give folders of runs, such as results/local"
            )
        if not any(self.path.rglob("*.parquet")):
            raise ValueError(f"{self.path}: no run has left a table here: run {self.command}")

    @property
    def command(self) -> str:
        """The command that makes the whole run."""
        return run_command(self.path)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    @remembered
    def problems(self) -> tuple[str, ...]:
        """The Problems with any table."""
        return self._folders(self.path / "problems")

    @property
    @remembered
    def models(self) -> tuple[str, ...]:
        """The models with any table."""
        return self._folders(self.path / "train")

    def table(self, table: Table, name: str) -> pl.DataFrame | None:
        """Return a table by its path without the suffix, or None."""
        path = self.path / f"{name}.parquet"
        if not self._has(path):
            return None
        self.has_read([Source(table.name, _rule_of(table, name), f"{name}.parquet")])
        return read_unchanged(table, path)

    def cite(self, table: Table) -> None:
        """Name a table of the run's own folder as a source of what was read."""
        if self._has(self.path / f"{table.name}.parquet"):
            self.has_read([Source(table.name, table.rule, f"{table.name}.parquet")])

    @contextmanager
    def reading(self) -> Iterator[set[Source]]:
        """Collect the sources read from this tree inside the `with` block."""
        self._open.append(set())
        try:
            yield self._open[-1]
        finally:
            self.has_read(self._open.pop())

    def has_read(self, sources: Iterable[Source]) -> None:
        """Report these sources as read to the enclosing `reading`."""
        if self._open:
            self._open[-1].update(sources)

    def has_read_sidecar(self, table: Table, name: str) -> None:
        """Report the sidecar of a table as read, by the table's path without the suffix."""
        self.has_read([Source(f"{table.name} (sidecar)", table.rule, path_of(f"{name}.parquet").as_posix())])

    def of_problems(self, table: Table, name: str = "") -> pl.DataFrame | None:
        """Return the rows of a table of all Problems, one after the other; None if no Problem has it."""
        return _together(self.table(table, f"problems/{p}/{name or table.name}") for p in self.problems)

    def of_models(self, table: Table) -> pl.DataFrame | None:
        """Return the rows of a table of all models."""
        return _together(self.table(table, f"train/{m}/{table.name}") for m in self.models)

    def settings(self, table: Table, name: str) -> Settings | None:
        """Return the settings of a table's rule, by the table's path without the suffix; None if unknown."""
        path = self.path / f"{name}.parquet"
        found = settings_of(path) if self._has(path) else None
        if found is not None:
            self.has_read_sidecar(table, name)
        return found

    def searches(self, problem: str) -> tuple[str, ...]:
        """Return the searches of a Problem with any table."""
        return self._folders(self.path / "problems" / problem / "search")

    def of_searches(self, table: Table, problem: str = "") -> pl.DataFrame | None:
        """Return the rows of a table of all searches, of all Problems or of one."""
        return _together(
            self.table(table, f"problems/{problem}/search/{search}/{table.name}")
            for problem in ((problem,) if problem else self.problems)
            for search in self.searches(problem)
        )

    @property
    @remembered
    def subjects(self) -> Subjects:
        """What its jobs are of."""
        searches = {problem: self.searches(problem) for problem in self.problems}
        return Subjects(problems=self.problems, models=self.models, searches=searches)

    @property
    @remembered
    def choice(self) -> pl.DataFrame | None:
        """The table `choice` of all Problems."""
        return self.of_problems(CHOICE)

    @property
    @remembered
    def deployed(self) -> pl.DataFrame | None:
        """The deployed candidate and its gain at each Case and direction; None before the confirming launches."""
        return self.table(DEPLOYED, "deployed")

    @property
    @remembered
    def worths(self) -> tuple[Worth, ...]:
        """The deployed arm of each model, and its gains."""
        splits = self.table(SPLITS, "splits")
        return worths_of(splits, self.deployed) if splits is not None and self.deployed is not None else ()

    @property
    @remembered
    def phases(self) -> tuple[JobTime, ...]:
        """What each job took: its last attempt, and lost ones; the longest first."""
        jobs = {job for rule in rules(ALL) for job in self.subjects.jobs(rule, of_all=True)}
        phases = []
        for path in sorted((self.path / "logs").glob(f"*{attempts.SUFFIX}")):
            last_s = attempts.made_s(path) if path.stem in jobs else None
            if last_s is not None:
                phases.append(JobTime(name=path.stem, last_s=last_s, lost_s=attempts.lost_s(path)))
        told = [phase for phase in phases if not phase.declared.shows]
        self.has_read(Source("attempts", phase.rule, f"logs/{phase.name}{attempts.SUFFIX}") for phase in told)
        return tuple(sorted(phases, key=lambda phase: -phase.seconds))

    def versions(self, table: Table, name: str) -> str | None:
        """Return host, cores and libraries of a table from its sidecar; None without one."""
        path = path_of(self.path / f"{name}.parquet")
        if not path.exists():
            return None
        self.has_read_sidecar(table, name)
        record = json.loads(path.read_text())
        libraries = ", ".join(f"{k} {v}" for k, v in sorted(record["versions"].items()))
        return f"{record['host']}, {record['cores']} cores, {record['system']}; {libraries}"

    def _has(self, path: Path) -> bool:
        return path.exists() and (self.files is None or path in self.files)

    def _folders(self, path: Path) -> tuple[str, ...]:
        """Return the subfolders with any table among `files`: a search with recorded answers alone did not run."""
        tables = list(path.rglob("*.parquet")) if self.files is None else self.files
        folders = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
        return tuple(f.name for f in folders if any(one.is_relative_to(f) for one in tables))


def _rule_of(table: Table, name: str) -> str:
    """Return the writing rule: of two (`fit, finalists`) the first writes a run's table, the last a Problem's."""
    rules = table.rule.split(", ")
    return rules[-1] if "/" in name else rules[0]


def sourced(
    part: Callable[Concatenate[Tree, P], Iterable[Block]],
) -> Callable[Concatenate[Tree, P], list[Block]]:
    """Decorate a part of the page: each block gets all sources read in the part so far.

    A nested `sourced` part keeps its own sources.
    """

    @wraps(part)
    def told(tree: Tree, /, *rest: P.args, **named: P.kwargs) -> list[Block]:
        with tree.reading() as read:
            return [one for block in part(tree, *rest, **named) for one in with_sources(read, [block])]

    return told


def trees_of(paths: Sequence[Path]) -> tuple[Tree, ...]:
    """Return the trees at these paths.

    Raises:
        ValueError: A path is no run, or is given twice.
    """
    trees = tuple(Tree(path=Path(path)) for path in paths)
    names = [tree.path.resolve() for tree in trees]
    if len(set(names)) != len(names):
        raise ValueError(f"every run is given once (got {', '.join(map(str, paths))})")
    return trees


def of_summary(path: Path) -> frozenset[Path] | None:
    """Return the tables behind a tree's summary, and those made with it; None without a sidecar.

    The tree may also hold Problems and models of other runs.
    """
    beside = path_of(path / "summary.parquet")
    if not beside.exists():
        return None
    made_of = json.loads(beside.read_bytes())["inputs"]
    below = [Path(*Path(one).parts[2:]) for one in made_of]  # of results/<tree>/
    return frozenset(path / one for one in (*below, *map(Path, WITH_SUMMARY)))


def settings_of(table: Path) -> Settings | None:
    """Return the part of the settings declared by a table's rule, from its sidecar; None without one.

    Today's configuration, preset or --configfile may differ.

    Raises:
        TableError: The sidecar's settings are of another release.
    """
    beside = path_of(table)
    if not beside.exists():
        return None
    command: list[str] = json.loads(beside.read_bytes())["command"]
    if _SETTINGS not in command:
        return None
    try:
        return Settings.from_part(command[command.index(_SETTINGS) + 1])
    except (IndexError, ValueError) as error:
        raise TableError(
            f"{beside}: its settings are not of this release ({error}). Make it again: {remake(table)}"
        ) from None


def _together(frames: Iterator[pl.DataFrame | None]) -> pl.DataFrame | None:
    made = [frame for frame in frames if frame is not None]
    return pl.concat(made) if made else None
