"""FILE::FUNCTION: a strategy of your own, and the place of an error in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlayccl_core import catalog, loader
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.source_check import function_at


def read_strategy(text: str) -> tuple[str, str, str]:
    """Return (file as given, source, function) of FILE::FUNCTION.

    Raises:
        ValueError: No such file or function.
        Rejected: It is not in the language.
    """
    name, _, function = text.partition("::")
    source = _source_of(name)
    with placed(name, source):
        functions = functions_of(source)
    if not function and len(functions) == 1:
        function = functions[0]
    if function not in functions:
        known = ", ".join(functions) or "none"
        raise ValueError(f"{name} has no function {function!r}: give {name}::FUNCTION, one of: {known}")
    return name, source, function


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
    """Add file, line, function (the one around the line, if known) and Case to a Rejected from within."""
    try:
        yield
    except Rejected as error:
        line = error.line
        around = function_at(source, line) or function if line else function
        places = (name, line and f"line {line}", around and f"in {around}", case and f"at {case}")
        raise Rejected(f"{', '.join(p for p in places if p)}: {error.args[0]}") from error


@contextmanager
def in_library(problem: str, function: str | None = None, case: str | None = None) -> Iterator[None]:
    """Do the same for an error in the library of a Problem."""
    with placed(str(loader.path("strategies", problem)), catalog.library_source(problem), function, case):
        yield
