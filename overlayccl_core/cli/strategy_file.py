"""FILE::FUNCTION, the Problem and the Case that a command is given."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.cli.context import Context
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.source_check import function_at
from overlayccl_core.stages.cases import cases_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFile:
    """A source, its file's name as it was given, and the function in it that is meant."""

    name: str
    source: str
    function: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a strategy and where it is to be used."""
    parser.add_argument(
        "strategy", metavar="FILE::FUNCTION", help="a strategy; FILE alone if it has only one"
    )
    parser.add_argument("--problem", required=True, help="the Problem that it is to solve")
    parser.add_argument("--case", metavar="ID", help="a Case of the configuration")


def read_strategy(text: str) -> StrategyFile:
    """The strategy of FILE::FUNCTION. ValueError: no such file or function; Rejected: not in the language."""
    name, _, function = text.partition("::")
    source = _source_of(name)
    with placed(name, source):
        functions = functions_of(source)
    if not function and len(functions) == 1:
        function = functions[0]
    if function not in functions:
        known = ", ".join(functions) or "none"
        raise ValueError(f"{name} has no function {function!r}: give {name}::FUNCTION, one of: {known}")
    return StrategyFile(name=name, source=source, function=function)


def _source_of(name: str) -> str:
    path = Path(name)
    if path.is_dir():
        raise ValueError(f"{name}: is a directory: give FILE::FUNCTION")
    if not path.is_file():
        raise ValueError(f"{name}: there is no such file: give FILE::FUNCTION")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not a text file in UTF-8: give a Python source") from None


@contextmanager
def placed(name: str, source: str, function: str | None = None, case: str | None = None) -> Iterator[None]:
    """A Rejected from within says file, line, function (the one around the line, if known) and Case."""
    try:
        yield
    except Rejected as error:
        line = error.line
        around = function_at(source, line) or function if line else function
        places = (name, line and f"line {line}", around and f"in {around}", case and f"at {case}")
        raise Rejected(f"{', '.join(p for p in places if p)}: {error.args[0]}") from error


def other_cases_text(cases: Sequence[Case], tried: Case) -> str | None:
    """Which Cases a strategy was not tried at; None: there is no other."""
    others = [c.id for c in cases if c != tried]
    return f"Other Cases (--case): {', '.join(others)}" if others else None


def chosen_cases(context: Context, problem: str, case: str | None) -> list[Case]:
    """The Case of that id, or all configured ones. ValueError naming those there are."""
    cases = cases_of(context.settings, context.deployment, problem)
    if case is None:
        return cases
    found = [c for c in cases if case in (c.id, c.id.partition("/")[2])]
    if not found:
        raise ValueError(f"no Case {case!r} of {problem}: choose one of {', '.join(c.id for c in cases)}")
    return found
