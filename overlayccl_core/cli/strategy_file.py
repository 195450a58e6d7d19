"""FILE::FUNCTION, the Problem and the Case that a command is given."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.cli.context import Context
from overlayccl_core.program.case import Case
from overlayccl_core.program.library import functions_of
from overlayccl_core.stages.cases import cases_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyFile:
    """A source and the function in it that is meant."""

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
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{name}: there is no such file: give FILE::FUNCTION")
    source = path.read_text()
    functions = functions_of(source)
    if not function and len(functions) == 1:
        function = functions[0]
    if function not in functions:
        known = ", ".join(functions) or "none"
        raise ValueError(f"{name} has no function {function!r}: give {name}::FUNCTION, one of: {known}")
    return StrategyFile(source=source, function=function)


def chosen_cases(context: Context, problem: str, case: str | None) -> list[Case]:
    """The Case of that id, or all configured ones. ValueError naming those there are."""
    cases = cases_of(context.settings, context.deployment, problem)
    if case is None:
        return cases
    found = [c for c in cases if case in (c.id, c.id.partition("/")[2])]
    if not found:
        raise ValueError(f"no Case {case!r} of {problem}: choose one of {', '.join(c.id for c in cases)}")
    return found
