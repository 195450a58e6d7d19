"""The interface of a rule to its stage: tables in and out by name, and the options of its command.

A rule's `stages/<rule>.py` has `main(job)`. Nothing heavy is imported here: this file is in the code of every rule.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import polars as pl

from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.sidecar import read_unchanged, write_sidecar
from overlayccl_core.tables.table import Rows, Table, write

RUNNER = "workflow_scripts.stage"
Paths = Mapping[str, Sequence[Path]]


@dataclass(frozen=True, kw_only=True)
class RuleJob:
    """One run of a rule.

    Attributes:
        inputs, outputs: Name in the rule (a table's own) -> paths; more than one of several Problems, searches or
            models. A sidecar goes with its table.
        options: All other arguments, as texts.
        say: Prints a line for people.
    """

    rule: str
    inputs: Paths = field(default_factory=dict)
    outputs: Paths = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = print
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def option(self, name: str) -> str:
        """Return an option. ValueError if the rule does not pass it."""
        if name not in self.options:
            raise ValueError(
                f"rule {self.rule} is not told {name!r}: add it to stage(...) in its file in rules/"
            )
        return self.options[name]

    @classmethod
    def of(cls, words: Sequence[str], say: Callable[[str], None] = print) -> Self:
        """Parse a job's command line: RULE --OPTION VALUE ... --inputs NAME=PATH ... --outputs NAME=PATH ..."""
        rule, *rest = words
        told: dict[str, list[str]] = {}
        for word in rest:
            if word.startswith("--"):
                told[word.removeprefix("--")] = values = []
            else:
                values.append(word)
        inputs, outputs = (_by_name(told.pop(kind, ())) for kind in ("inputs", "outputs"))
        options = {name: " ".join(values) for name, values in told.items()}
        return cls(rule=rule, inputs=inputs, outputs=outputs, options=options, say=say)

    @property
    def problem(self) -> str:
        """The Problem of its wildcards."""
        return self.option("problem")

    @property
    def problems(self) -> list[str]:
        """The Problems in its options."""
        return self.option("problems").split(",")

    @property
    def partial(self) -> Path:
        """Folder for finished launches of a rule that measures."""
        return Path(self.option("partial"))

    def has(self, table: Table) -> bool:
        """Return whether an input is this table."""
        return bool(self.inputs.get(table.name))

    def read(self, table: Table, problem: str | None = None) -> pl.DataFrame:
        """Return this table from the inputs, as its rule wrote it; of several, a Problem's."""
        return read_unchanged(table, self.file(table.name, problem))

    def read_all(self, table: Table, problem: str | None = None) -> pl.DataFrame:
        """Return the rows of all inputs of this table, of a Problem or of all; none without such an input."""
        frames = [read_unchanged(table, path) for path in self._inputs(table.name, problem)]
        return pl.concat(frames) if frames else pl.DataFrame(schema=table.schema)

    def file(self, name: str, problem: str | None = None) -> Path:
        """Return the one input of a name; of several, a Problem's. ValueError unless there is exactly one."""
        paths = self._inputs(name, problem)
        if len(paths) != 1:
            of = f" of {problem}" if problem else ""
            raise ValueError(f"rule {self.rule} has {len(paths)} inputs {name!r}{of}: it needs one in rules/")
        return paths[0]

    def _inputs(self, name: str, problem: str | None) -> list[Path]:
        paths = self.inputs.get(name, ())
        return [path for path in paths if problem is None or f"/problems/{problem}/" in path.as_posix()]

    @property
    def all_inputs(self) -> tuple[Path, ...]:
        """Paths it may read."""
        return tuple(path for paths in self.inputs.values() for path in paths)

    @property
    def all_outputs(self) -> tuple[Path, ...]:
        """Paths it has to write."""
        return tuple(path for paths in self.outputs.values() for path in paths)

    def write_text(self, path: Path, text: str) -> None:
        """Write an output atomically."""
        write_bytes(path, text.encode())
        self.say(str(path))

    def write(self, tables: Mapping[Table, Rows]) -> None:
        """Write tables with their sidecars. All rows are checked and written before the first sidecar."""
        written = []
        for table, rows in tables.items():
            if len(paths := self.outputs.get(table.name, ())) != 1:
                raise ValueError(
                    f"rule {self.rule} has {len(paths)} outputs {table.name!r}: it needs one in rules/"
                )
            (path,) = paths
            frame = write(table, rows, path)
            written.append((path, frame.height))
        for path, rows_written in written:
            write_sidecar(
                path,
                inputs=self.all_inputs,
                command=["python", "-P", "-m", RUNNER, *sys.argv[1:]],
                started=self.started,
                ended=datetime.now(UTC),
            )
            self.say(f"{path}: {rows_written} rows")


def _by_name(words: Iterable[str]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for name, _, path in (word.partition("=") for word in words):
        found.setdefault(name, []).append(Path(path))
    return found
