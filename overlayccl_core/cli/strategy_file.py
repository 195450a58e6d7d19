"""FILE::FUNCTION or a seed, the Problem and the Case that a command is given."""

import argparse
import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.cli.context import Context
from overlayccl_core.configuration.cases import case_of, cases_of
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.source_check import function_at
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.seed import seeds_of


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


def add_program_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a strategy of one's own or a seed, and one Case."""
    parser.add_argument(
        "strategy",
        metavar="STRATEGY",
        help="FILE::FUNCTION (FILE alone if it has only one), or a known one: see `overlayccl problems`",
    )
    parser.add_argument("--problem", required=True, help="the Problem that it solves")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--case", metavar="ID", help="a Case of the configuration (default: the first)")
    which.add_argument(
        "--case-json",
        metavar="JSON",
        help="a Case that is not configured: its fields as under `cases` in config/config.yaml, such as "
        '\'{"payload": "1MiB"}\'',
    )


def chosen_case(context: Context, arguments: argparse.Namespace) -> Case:
    """The Case of --case or --case-json, or the first one. ValueError: what is wrong with it."""
    if arguments.case_json is None:
        return chosen_cases(context, arguments.problem, arguments.case)[0]
    try:
        entry = json.loads(arguments.case_json)
    except json.JSONDecodeError as error:
        raise ValueError(f"--case-json: not readable as JSON ({error}): give a mapping of fields") from None
    if not isinstance(entry, dict):
        raise ValueError(f"--case-json: must be a mapping of fields (got {entry!r})")
    try:
        return case_of(arguments.problem, entry, context.deployment)
    except ValueError as error:
        raise ValueError(f"--case-json: {error}") from None


def traced(text: str, problem: Problem) -> tuple[str, Program]:
    """(name, Program) of FILE::FUNCTION or of a seed of the Problem. Rejected, NotApplicable: as when tracing.

    ValueError where there is neither such a file nor such a seed.
    """
    if "::" in text or Path(text).suffix == ".py" or Path(text).exists():
        strategy = read_strategy(text)
        with placed(strategy.name, strategy.source, strategy.function, problem.case.id):
            return strategy.function, trace_source(strategy.source, strategy.function, problem)
    seeds = {seed.name: seed for seed in seeds_of(problem)}
    if text not in seeds:
        close = difflib.get_close_matches(text, seeds, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(
            f"{text}: neither a file nor a known strategy of {problem.name}: {hint}give FILE::FUNCTION or one "
            f"of: {', '.join(seeds)}"
        )
    return text, replay(seeds[text].recipe, problem)


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
    named = [c for c in cases if case in (c.id, c.id.partition("/")[2])]
    if not named:
        raise ValueError(f"no Case {case!r} of {problem}: choose one of {', '.join(c.id for c in cases)}")
    return named
