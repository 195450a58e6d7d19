"""Hostile sources, a table for each wall: what one tries, what the wall says, and what happens without it.

parse: the language has no such thing, be it syntax, a name or an attribute. fuel: what a source may make and do is
counted. process: the operating system lets its process compute and nothing else. `without` of the first two is what
becomes of the source when Python runs it in the confined process: it goes through, or the next wall stops it. Of
the third it is what becomes of it when its process is not confined. `body`: of the function; `source`: the whole.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest
import yaml

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.source_check import check_tree
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox import tracing
from overlayccl_core.sandbox.confine import Limits
from overlayccl_core.sandbox.tracing import trace_confined
from tests.small_problems import exchange

HERE = Path(__file__).parent
PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})
QUICK_S = 3.0  # of CPU, which a machine that others keep busy gives late
BUSY = 2  # and then each second of it does less
FEW = Limits(cpu_s=1, memory_bytes=2**30)
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
    body: str = ""
    source: str = ""

    @property
    def text(self) -> str:
        return self.source or FUNCTION.format(body=indent(self.body, "    "))


def table(name: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    return rows


SOURCES = [Hostile(wall=wall, **row) for wall in WALLS for row in table(wall)]


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


def cpu_s() -> float:
    """Seconds of CPU of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def executed(source: str, monkeypatch: pytest.MonkeyPatch, *, confined: bool) -> str:
    """What becomes of it when Python runs it."""
    harness = f"from tests.hostile.executing import main; main({confined=})"
    monkeypatch.setattr(tracing, "_COMMAND", f"import sys; sys.path += sys.argv[1:]; {harness}")
    return said(source, FEW)


def test_there_are_enough_of_them() -> None:
    assert [len(table(name)) for name in (*WALLS, "schema")] == [57, 40, 31, 53]


@of_wall("parse", "fuel")
def test_a_hostile_source_is_refused_by_its_wall_soon(hostile: Hostile) -> None:
    began = cpu_s()
    assert hostile.says in said(hostile.text, Limits())
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
