"""What the commands of all rules share: arguments, progress, checked tables in and out, one message on failure."""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from overlayccl_core import disk
from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.sidecar import read_unchanged, write_sidecar
from overlayccl_core.tables.table import Rows, Table, write
from workflow_scripts.following import follow, refuse_elsewhere
from workflow_scripts.progress import Progress
from workflow_scripts.stamps import none_ahead

MEASURES = "partial"  # the option of all that measure: where launches are kept as they come


class Command:
    """One run of a rule's command; the paths are those that the rule declares.

    --inputs and --outputs are tables (a sidecar's path among the outputs goes with its table); --log gets every
    line that people see (`say`). What else a rule passes is an argument of its own, named in `options`.
    """

    def __init__(self, rule: str, options: tuple[str, ...]) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m workflow_scripts.{rule}")
        parser.add_argument("--inputs", nargs="*", type=Path, default=[], metavar="TABLE")
        parser.add_argument("--outputs", nargs="+", type=Path, required=True, metavar="TABLE")
        parser.add_argument("--log", type=Path, required=True)
        for option in options:
            parser.add_argument(f"--{option}", required=True)
        self.rule = rule
        self._arguments = parser.parse_args()
        self._started = datetime.now(UTC)
        self.say = Progress(rule, self._arguments.log)

    @property
    def outputs(self) -> tuple[Path, ...]:
        """All that it is to write."""
        return tuple(self._arguments.outputs)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """All that it may read."""
        return tuple(self._arguments.inputs)

    def option(self, name: str) -> str:
        """The value of one of `options`."""
        return str(getattr(self._arguments, name))

    def has(self, table: Table, problem: str | None = None) -> bool:
        """Whether an input holds `table`."""
        return bool(_paths(self._arguments.inputs, table, problem))

    def read(self, table: Table, problem: str | None = None) -> pl.DataFrame:
        """The input that holds `table`: the deployment's, or that of a Problem; as its rule wrote it."""
        paths = _paths(self._arguments.inputs, table, problem)
        if not paths:
            owner = f"problems/{problem}/" if problem else ""
            raise ValueError(
                f"no input of this command is the table {owner}{table.name}: add it to the rule's inputs"
            )
        return read_unchanged(table, paths[0])

    def read_all(self, table: Table, problem: str | None = None) -> pl.DataFrame:
        """The rows of all inputs that hold `table`, of all searches or models; none without such an input."""
        frames = [read_unchanged(table, path) for path in _paths(self._arguments.inputs, table, problem)]
        return pl.concat(frames) if frames else pl.DataFrame(schema=table.schema)

    def read_text(self, suffix: str) -> str:
        """The text of the input whose path ends in `suffix`."""
        path: Path = next(p for p in self._arguments.inputs if p.as_posix().endswith(suffix))
        return path.read_text()

    def output(self, suffix: str) -> Path:
        """The output that ends in `suffix`."""
        path: Path = next(p for p in self._arguments.outputs if p.as_posix().endswith(suffix))
        return path

    def write_text(self, suffix: str, text: str) -> None:
        """Write the output that ends in `suffix`, whole or not at all."""
        path = self.output(suffix)
        write_bytes(path, text.encode())
        self.say(str(path))

    def write(self, tables: Mapping[Table, Rows]) -> None:
        """Write tables with their sidecars. All rows are checked and written before the first sidecar."""
        paths = [p for p in self._arguments.outputs if p.suffix == ".parquet"]
        written = []
        for table, rows in tables.items():
            path = next(p for p in paths if p.stem == table.name)
            frame = write(table, rows, path)
            written.append((path, frame.height))
        for path, rows_written in written:
            write_sidecar(
                path,
                inputs=self._arguments.inputs,
                command=["python", "-P", "-m", f"workflow_scripts.{self.rule}", *sys.argv[1:]],
                started=self._started,
                ended=datetime.now(UTC),
            )
            self.say(f"{path}: {rows_written} rows")


def run(rule: str, main: Callable[[Command], None], *options: str) -> None:
    """Run a rule's `main`. Exit code 1 after one message for bad input (ValueError) or a traceback for a bug."""
    command = Command(rule, options)
    try:
        follow(command.say)
        if MEASURES in options:
            refuse_elsewhere()
        main(command)
        none_ahead(command.inputs, command.say)
    except ValueError as error:
        command.say(f"ERROR: {error}")
        sys.exit(1)
    except Exception as error:
        if number := disk.refused(error):
            where = disk.said(number, *command.outputs[:1], Path(tempfile.gettempdir()))
            command.say(f"ERROR: {where}. {disk.MEND}")
        else:
            command.say(f"BUG: {traceback.format_exc()}")
        sys.exit(1)
    except KeyboardInterrupt:
        command.say("interrupted: what was measured so far is kept")
        sys.exit(130)
    finally:
        command.say.end()


def _paths(paths: list[Path], table: Table, problem: str | None) -> list[Path]:
    """Those that hold `table`: of a Problem, or (None) of none."""
    owner = f"/problems/{problem}/" if problem else ""
    named = [path for path in paths if path.stem == table.name]
    return [p for p in named if (owner in p.as_posix() if owner else "/problems/" not in p.as_posix())]
