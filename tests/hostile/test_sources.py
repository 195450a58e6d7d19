"""Hostile sources, a table for each wall. A row: the name of a source, what it tries, what the wall says => what
happens without the wall; then the source, whole or the body of its function alone (␀ stands for a null byte).

parse: the language has no such thing, be it syntax, a name or an attribute. fuel: what a source may make and do is
counted. process: the operating system lets its process compute and nothing else. `without` of the first two is what
becomes of the source when Python runs it in the confined process: it goes through, or the next wall stops it. Of
the third it is what becomes of it when its process is not confined.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import pytest

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.source_check import check_tree
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox import tracing
from overlayccl_core.sandbox.confine import Limits
from overlayccl_core.sandbox.tracing import trace_confined
from tests.sandbox.forked import cpu_s
from tests.small_problems import exchange

pytestmark = pytest.mark.usefixtures("forked")
HERE = Path(__file__).parent
PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})
QUICK_S = 3.0  # of CPU, which a machine that others keep busy gives late
BUSY = 3  # and then each second of it does less: half a million chunks took 6.5 s
FEW = Limits(cpu_s=1, memory_bytes=2**30)
PATIENT = Limits(wall_s=600.0)  # its fuel ends it, however slow a busy machine is
GOES_THROUGH = "goes through"


WALLS = ("parse", "fuel", "process")
FUNCTION = """from overlayccl_core.program.language import all_reduce


def tried(io, p):
{body}    io.write("y", all_reduce(io.read("x")))
"""


@dataclass(frozen=True)
class Hostile:
    """A row of a table."""

    wall: str
    name: str
    tries: str
    says: str
    without: str
    text: str


def table(wall: str) -> Iterator[Hostile]:
    for row in re.split(r"\n\n(?=\S)", (HERE / f"{wall}.txt").read_text()):
        about, outcome, text = row.split("\n", 2)
        (name, tries), (says, without) = about.split(": ", 1), outcome.split(" => ")
        text = f"{dedent(text).strip()}\n".replace("␀", "\0")
        if "def tried(" not in text:
            text = FUNCTION.format(body=indent(text, "    "))
        yield Hostile(wall=wall, name=name, tries=tries, says=says, without=without, text=text)


SOURCES = [hostile for wall in WALLS for hostile in table(wall)]


def of_wall(*walls: str) -> pytest.MarkDecorator:
    chosen = [pytest.param(h, id=f"{h.wall}/{h.name}") for h in SOURCES if h.wall in walls]
    return pytest.mark.parametrize("hostile", chosen)


def said(source: str, limits: Limits) -> str:
    """What becomes of a source."""
    try:
        trace_confined(source, "tried", PROBLEM, limits=limits)
    except Rejected as error:
        return str(error)
    return GOES_THROUGH


def executed(source: str, monkeypatch: pytest.MonkeyPatch, *, confined: bool) -> str:
    """What becomes of it when Python runs it."""
    harness = f"from tests.hostile.executing import main; main({confined=})"
    monkeypatch.setattr(tracing, "_COMMAND", f"import sys; sys.path += sys.argv[1:]; {harness}")
    return said(source, FEW)


def test_there_are_enough_of_them() -> None:
    assert Counter(hostile.wall for hostile in SOURCES) == {"parse": 60, "fuel": 43, "process": 31}


@of_wall("parse", "fuel")
def test_a_hostile_source_is_refused_by_its_wall_soon(hostile: Hostile) -> None:
    began = cpu_s()
    assert hostile.says in said(hostile.text, PATIENT)
    assert cpu_s() - began < QUICK_S * BUSY


@of_wall("fuel")
def test_the_language_has_all_that_a_hungry_source_says(hostile: Hostile) -> None:
    """So it is no other wall that stops it."""
    check_tree(hostile.text)


@of_wall("parse", "fuel")
def test_without_its_wall_a_hostile_source_does_what_it_says(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    became = executed(hostile.text, monkeypatch, confined=True)
    assert any(words in became for words in hostile.without.split(" or ")), became


@of_wall("process")
def test_a_confined_process_does_no_harm_though_python_runs_the_source(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hostile.says in executed(hostile.text, monkeypatch, confined=True)
    assert hostile.without in executed(hostile.text, monkeypatch, confined=False)


@of_wall("process")
def test_what_needs_the_last_wall_does_not_pass_the_first_either(hostile: Hostile) -> None:
    with pytest.raises(Rejected):
        trace_source(hostile.text, "tried", PROBLEM)
