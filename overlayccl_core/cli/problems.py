"""`overlayccl problems`: list Problems, their strategies and Cases.

What the ranks can be asked to compute together: each Problem with what a strategy reads, writes and sees, its
known strategies with their lines, and the Cases of the configuration.
"""

import argparse
import inspect
from collections.abc import Iterator, Mapping

from rich.table import Table

from overlayccl_core import catalog, loader
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import console, print_text
from overlayccl_core.cli.strategy_file import in_library
from overlayccl_core.configuration.fields import described
from overlayccl_core.program.case import Case
from overlayccl_core.program.code_lines import lines_of
from overlayccl_core.program.library import BACKWARD, Role, StrategyLibrary, read_library
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.problem_text import ports_text
from overlayccl_core.report.blocks import count


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "problem", nargs="?", metavar="PROBLEM", help="only this one, with its whole description"
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0. ValueError for an unknown Problem."""
    where = context(arguments)
    names = loader.names("problems") if arguments.problem is None else (arguments.problem,)
    for number, name in enumerate(names):
        description = inspect.getdoc(catalog.plug_in(name)) or name
        first, _, rest = description.partition("\n\n")
        if number:
            print_text("")
        print_text(" ".join(first.split()))
        if arguments.problem is not None and rest:
            print_text(f"\n{_reflowed(rest)}\n")
        table = Table(box=None, show_header=False, pad_edge=True, padding=(0, 1))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        with in_library(name):
            for row in _rows(where, name):
                table.add_row(*row)
        console().print(table, highlight=False, markup=False)
    return 0


def _rows(where: Context, name: str) -> Iterator[tuple[str, str]]:
    cases = where.cases(name)
    if cases:
        case = max(cases, key=_ports_of)  # with the most indices, to be shown as ranges
        problem, backward = catalog.build(case), catalog.backward(case)
        yield "at", case.id
        yield "reads", ports_text(problem.inputs)
        yield "writes", ports_text(problem.outputs)
        yield "p.", ", ".join(problem.parameters)
        yield "backward", "exchanges nothing" if backward is None else _exchange(backward)
    source = catalog.library_source(name)
    lines = lines_of(source)
    yield "strategies", _strategies(read_library(source), lines)
    if cases and not problem.linear and backward is not None:
        yield "of backward", _strategies(read_library(source, BACKWARD), lines)
    entry = catalog.plug_in(name).Entry
    yield "a Case has", f"{described(entry)}. {inspect.getdoc(entry)}"
    yield count(len(cases), "Case") if cases else "Cases", "\n".join(c.id for c in cases) or "none configured"


def _ports_of(case: Case) -> int:
    problem = catalog.build(case)
    return len(problem.inputs) + len(problem.outputs)


def _strategies(library: StrategyLibrary, lines: Mapping[str, int]) -> str:
    """Name each, with its role and what it takes by hand."""
    return "\n".join(
        f"{way}, {lines[way]} lines{_role(role, way, library)}" for way, role in library.strategies
    )


def _reflowed(description: str) -> str:
    """Join lines to paragraphs and items: an item begins with an indent, its further lines have a larger one."""
    joined: list[str] = []
    item = -1
    for line in description.splitlines():
        indent = len(line) - len(line.lstrip())
        further = bool(joined and joined[-1] and line) and (indent == item == 0 or indent > max(item, 0) > 0)
        if further:
            joined[-1] += f" {' '.join(line.split())}"
        else:
            joined.append(f"{' ' * indent}{' '.join(line.split())}")
            item = indent
    return "\n".join(joined)


def _role(role: Role, way: str, library: StrategyLibrary) -> str:
    if role is Role.OTHER:
        return ""
    preferred = library.developers[: library.developers.index(way)] if role is Role.DEVELOPER else ()
    where = f" where the library has no {' and no '.join(preferred)}" if preferred else ""
    return f"  ({role.value.replace('_', ' ')}{where})"


def _exchange(backward: Problem) -> str:
    return f"reads {ports_text(backward.inputs)}, writes {ports_text(backward.outputs)}"
