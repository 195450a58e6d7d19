"""A command's strategy (a file's function, a known way, a find), and its Problems."""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.cli import executable_file, schedule_file
from overlayccl_core.cli.context import Context
from overlayccl_core.cli.finds import Find, find
from overlayccl_core.cli.schedule_file import PAYLOAD
from overlayccl_core.cli.strategy_file import in_library, placed, read_strategy
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.fields import hint
from overlayccl_core.configuration.sizes import bytes_text, in_bytes
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.schedules.schedule import ALL_TO_NEXT, KINDS, Schedule, program
from overlayccl_core.stages.known_ways import known_ways_of
from overlayccl_core.tables.candidate_columns import FOUND, is_found


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The strategy named by STRATEGY.

    Attributes:
        at: Returns its Program at a Problem. Raises Rejected (with file, line and function) and NotApplicable as
            tracing does; ValueError if it has no meaning there.
        found: The find; None for other strategies.
        also: Other uses of the same schedule, which must be right, too: in place.
        about: Lines about its file, for people.
    """

    name: str
    at: Callable[[Problem], Program]
    found: Find | None = None
    also: tuple["Strategy", ...] = ()
    about: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser, default_case: str) -> None:
    """Add the arguments for a strategy, and for its Case and direction."""
    parser.add_argument(
        "strategy",
        metavar="STRATEGY",
        help="FILE::FUNCTION (FILE alone if it has only one), a known one (see `overlayccl problems`), one "
        f"that a search found, such as {FOUND}1a2b3c4d, a schedule (MSCCL XML, MSCCL++ JSON), or what XLA "
        "compiled (FILE.hlo)",
    )
    parser.add_argument("--problem", help="the Problem that it solves (a schedule says it by itself)")
    parser.add_argument(
        "--collective", choices=(*KINDS, ALL_TO_NEXT), help="of a schedule (default: what its file says)"
    )
    parser.add_argument(
        "--payload",
        type=size_argument,
        metavar="SIZE",
        help=f"of a schedule: bytes that a rank gives, about (default: {bytes_text(PAYLOAD)})",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--case",
        metavar="ID",
        help=f"a Case of the configuration (default: {default_case}; of a find: its own)",
    )
    which.add_argument(
        "--case-json",
        metavar="JSON",
        help="a Case that is not configured: its fields as under `cases` in config/config.yaml, such as "
        '\'{"payload": "1MiB"}\'',
    )
    parser.add_argument(
        "--direction",
        choices=[d.value for d in Direction],
        help="of the training step (default: forward; of a find: its own)",
    )


def size_argument(text: str) -> int:
    """Return the bytes of an argument such as 64KiB."""
    try:
        return in_bytes(int(text) if text.isdigit() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def asked(where: Context, arguments: argparse.Namespace) -> tuple[Strategy, list[Problem]]:
    """Return the strategy and its Problems in the wanted direction: one for each Case.

    Raises:
        ValueError: No such Problem, Case, strategy or backward.
        Rejected: The file is not in the language.
    """
    if schedule_file.is_schedule(arguments.strategy):
        return _of_schedule(where, arguments)
    if executable_file.is_executable(arguments.strategy):
        return _of_executable(where, arguments)
    if arguments.problem is None:
        raise ValueError("say by --problem which Problem it solves: `overlayccl problems` lists them")
    catalog.plug_in(arguments.problem)
    given = _given_cases(where, arguments)
    strategy = _named(where, arguments)
    found = strategy.found
    if given is None:
        given = configured(where, arguments.problem) if found is None else [found.case]
    default = Direction.FORWARD if found is None else found.direction
    direction = Direction(arguments.direction) if arguments.direction else default
    if direction is Direction.BACKWARD and len(given) > 1:
        given = [case for case in given if catalog.backward(case) is not None] or given[:1]
    return strategy, [catalog.in_direction(case, direction) for case in given]


def configured(where: Context, problem: str) -> list[Case]:
    """Return the configured Cases of a Problem. ValueError: there are none."""
    if not (found := where.cases(problem)):
        raise ValueError(
            f"{problem} has no Case in the configuration of {where.asked_for}: give the fields of one as "
            f"--case-json (`overlayccl problems {problem}` names them), or add an entry under `cases` in "
            "config/config.yaml"
        )
    return found


def place_text(problem: Problem) -> str:
    """Return the Case, with the direction unless it is forward."""
    backward = ", backward" if problem.direction is Direction.BACKWARD else ""
    return f"{problem.case.id}{backward}"


def other_cases_text(where: Context, tried: Problem) -> str | None:
    """Name the Cases not tried for a strategy; None: there is no other."""
    try:
        others = [c.id for c in configured(where, tried.case.problem) if c != tried.case]
    except ValueError:
        return None
    return f"Other Cases (--case): {', '.join(others)}" if others else None


def _given_cases(where: Context, arguments: argparse.Namespace) -> list[Case] | None:
    """Return the Case of --case or --case-json; None without either. ValueError: the fault in it."""
    problem: str = arguments.problem
    if arguments.case_json is not None:
        try:
            return [case_of(problem, entry_of_json(arguments.case_json), where.deployment)]
        except ValueError as error:
            raise ValueError(f"--case-json: {error}") from None
    if arguments.case is None:
        return None
    known = configured(where, problem)
    named = [c for c in known if arguments.case in (c.id, c.id.partition("/")[2])]
    if not named:
        raise ValueError(
            f"no Case {arguments.case!r} of {problem} is configured for {where.asked_for}: choose one of "
            f"{', '.join(c.id for c in known)}; or give its fields as --case-json"
        )
    return named


def entry_of_json(text: str) -> dict[str, Any]:
    """Return the fields of a Case that were typed. ValueError: it is no JSON, or no mapping."""
    try:
        entry = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not readable as JSON ({error}): give a mapping of fields") from None
    if not isinstance(entry, dict):
        raise ValueError(f"must be a mapping of fields (got {entry!r})")
    return entry


def _named(where: Context, arguments: argparse.Namespace) -> Strategy:
    text: str = arguments.strategy
    if "::" in text or Path(text).suffix == ".py" or Path(text).exists():
        return _of_file(text)
    if is_found(text):
        found = find(where, arguments.problem, text)
        return Strategy(name=text, at=found.at, found=found)

    def way(problem: Problem) -> Program:
        with in_library(problem.case.problem, text, problem.case.id):
            return replay(_recipe_of_way(text, problem), problem)

    return Strategy(name=text, at=way)


def _of_file(text: str) -> Strategy:
    file, source, function = read_strategy(text)

    def traced(problem: Problem) -> Program:
        with placed(file, source, function, problem.case.id):
            return trace_source(source, function, problem)

    return Strategy(name=function, at=traced)


def _of_schedule(where: Context, arguments: argparse.Namespace) -> tuple[Strategy, list[Problem]]:
    """Return a schedule and its Problem: the captured call that it is, unless another is named."""
    schedules = schedule_file.read_schedules(arguments.strategy, arguments.collective)

    def of_use(use: Schedule) -> Strategy:
        def at(problem: Problem) -> Program:
            try:
                return program(use, problem)
            except Rejected as error:
                raise Rejected(f"{arguments.strategy}: {error}") from error

        return Strategy(name=use.name, at=at)

    first, *others = map(of_use, schedules)
    given = None if arguments.problem is None else _given_cases(where, arguments)
    case = given[0] if given else schedule_file.case_for(schedules[0], where, arguments.payload)
    problem = catalog.in_direction(case, Direction(arguments.direction or Direction.FORWARD))
    return replace(first, also=tuple(others)), [problem]


def _of_executable(where: Context, arguments: argparse.Namespace) -> tuple[Strategy, list[Problem]]:
    """Return what XLA compiled and its Problem: one call a parameter, unless a Case is named."""
    name: str = arguments.strategy
    text = executable_file.read_executable(name)
    given = None
    if arguments.problem is not None:
        catalog.plug_in(arguments.problem)
        if arguments.case_json is None:
            given = _given_cases(where, arguments) or configured(where, arguments.problem)
    fields = None if arguments.case_json is None else entry_of_json(arguments.case_json)
    cases = given or [executable_file.case_for(text, where, arguments.problem, fields, arguments.collective)]
    direction = Direction(arguments.direction or Direction.FORWARD)
    problems = [catalog.in_direction(case, direction) for case in cases]
    strategy = Strategy(
        name=Path(name).stem,
        at=lambda problem: executable_file.program_at(name, text, problem),
        about=tuple(executable_file.came_out(text, problems[0])),
    )
    return strategy, problems


def _recipe_of_way(text: str, problem: Problem) -> Recipe:
    ways = {way.name: way for way in known_ways_of(problem)}
    if text in ways:
        return ways[text].recipe
    other = next(d for d in Direction if d is not problem.direction)
    mend = hint(text, ways)
    if _is_known(text, problem.case, other):
        mend = f"it is one of the {other.value}: give --direction {other.value}"
    raise ValueError(
        f"{text}: neither a file (FILE::FUNCTION) nor a known strategy of {problem.name}: {mend}"
    )


def _is_known(text: str, case: Case, direction: Direction) -> bool:
    if direction is Direction.BACKWARD and catalog.backward(case) is None:
        return False
    return text in {way.name for way in known_ways_of(catalog.in_direction(case, direction))}
