"""A source traced in a confined process: the same as traced here, or refused; and nothing is left behind."""

import json
import os
import tempfile
from pathlib import Path
from time import monotonic

import psutil
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.library import functions_of, read_library
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox import tracing
from overlayccl_core.sandbox.confine import CannotConfine, Limits
from overlayccl_core.sandbox.tracing import trace_confined
from tests.known_cases import case
from tests.small_problems import exchange, strategy

PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})
RIGHT = strategy('io.write("y", all_reduce(io.read("x")))')
CONFINED = "from overlayccl_core.sandbox.confine import Limits, confine; confine(Limits()); print('confined')"


def outcome(trace: object, source: str, function: str, problem: Problem) -> tuple[str, str, int | None]:
    """What a way of tracing comes to: with its digest, or its message and the line."""
    try:
        return "program", trace(source, function, problem).digest, None  # type: ignore[operator]
    except (Rejected, NotApplicable) as error:
        return type(error).__name__, str(error), getattr(error, "line", None)


def answering(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Another process in the child's place: runs this after it has read what is asked."""
    command = f"import sys; sys.path += sys.argv[1:]; asked = sys.stdin.read(); {code}"
    monkeypatch.setattr(tracing, "_COMMAND", command)


def ways() -> list[tuple[str, str]]:
    """The strategies of all Problems; those made of other ways, of one Problem alone."""
    libraries = {name: read_library(catalog.library_source(name)) for name in loader.names("problems")}
    return [
        (name, function)
        for name, library in libraries.items()
        for function in library.functions
        if function not in library.derived or name == "ring_kv"
    ]


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("name", "function"), ways())
def test_known_strategies_come_out_as_they_are_traced_here(name: str, function: str) -> None:
    source = catalog.library_source(name)
    for problem in catalog.directions(case(name)):
        here = outcome(trace_source, source, function, problem)
        assert outcome(trace_confined, source, function, problem) == here


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("io.read('z')", "all_reduce"),
        ("io.write('y', all_reduce(io.read('x')))\nwhile True:\n    pass", "all_reduce"),
        ("not_applicable('two tiers only')", "not_applicable"),
        ("not_applicable('\\x1b[2J')", "not_applicable"),
        ("größe = io.read('x')\nio.write('y', gröẞe)", "all_reduce"),
        ("a = '\\N{GREEK SMALL LETTER ALPHA}' + 1", "all_reduce"),
        ("a = '\\ud800' + 1", "all_reduce"),
        ("a = 1 \0", "all_reduce"),
        ("a = '\\d' + 1", "all_reduce"),
        (
            "x = io.read('x')\nio.write('y', add(select(x, [1, 0, 1, 0]), select(scale(x, 2), [0, 1, 1, 1])))",
            "add, scale, select",
        ),
        ("io.write('y', all_reduce(io.read('x'), '" + "x" * 5000 + "'))", "all_reduce"),
        ("for i in range(10 ** 9):\n    pass", "all_reduce"),
    ],
)
def test_what_is_wrong_is_said_in_the_same_words_and_of_the_same_line(body: str, words: str) -> None:
    source = strategy(body, words)
    with pytest.warns() if "\\d" in body else tempfile.TemporaryDirectory():
        here = outcome(trace_source, source, "tried", PROBLEM)
    assert outcome(trace_confined, source, "tried", PROBLEM) == here


def test_the_program_is_of_the_very_problem_that_was_asked_for() -> None:
    problem = catalog.build(case("dist_ce"))
    assert problem.nonlinear is not None
    source = catalog.library_source("dist_ce")
    assert trace_confined(source, functions_of(source)[0], problem).problem is problem


def test_it_is_told_nothing_but_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a secret")
    found = "sorted(os.environ), os.listdir('.'), sorted(os.listdir('/proc/self/fd'))"
    say = "print('confined'); print(json.dumps({'rejected': json.dumps(told), 'line': None}))"
    answering(monkeypatch, f"import json, os; told = [{found}]; {say}")
    with pytest.raises(Rejected) as said:
        trace_confined(RIGHT, "tried", PROBLEM)
    environment, folder, files = json.loads(str(said.value))
    assert set(environment) <= {*tracing._ENVIRONMENT, "LC_CTYPE"}  # Python itself sets the last
    assert folder == [] and files == ["0", "1", "2", "3"]  # the last one lists them


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        (
            "from overlayccl_core.sandbox.confine import Limits, confine; confine(Limits(cpu_s=1));"
            " print('confined', flush=True); all(True for _ in iter(int, 1))",
            Limits(cpu_s=1),
            "more than 1 s of CPU",
        ),
        ("print('confined', flush=True); import time; time.sleep(60)", Limits(wall_s=0.5), "within 0.5 s"),
        ("print('confined'); print('x' * 10**6)", Limits(output_bytes=10**5), "more than 100000 bytes"),
        ("print('confined'); print('x' * 10)", Limits(), "gave no JSON"),
        ("print('confined', flush=True); sys.exit(3)", Limits(), "ended with code 3"),
        (
            "print('confined', flush=True); import os; os.kill(os.getpid(), 11)",
            Limits(),
            "was ended by SIGSEGV",
        ),
    ],
    ids=["cpu", "wall", "output", "garbage", "code", "signal"],
)
def test_whatever_the_process_does_the_strategy_is_refused_with_one_message(
    code: str, limits: Limits, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, code)
    with pytest.raises(Rejected, match=message):
        trace_confined(RIGHT, "tried", PROBLEM, limits=limits)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise OSError('no such file')", "start: OSError: no such"),
        ("pass", "start: it said nothing"),
        ('print(\'{"rejected": "no", "line": 1}\')', "did not start: {"),
        (CONFINED.replace("; print('confined')", "; confine(Limits())"), "did not start: "),
    ],
)
def test_what_was_never_confined_has_traced_nothing(
    code: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, code)
    with pytest.raises(CannotConfine, match=message):
        trace_confined(RIGHT, "tried", PROBLEM)


def test_whether_a_process_can_be_confined_is_known_before_there_is_a_strategy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracing.check()
    answering(monkeypatch, "pass")
    with pytest.raises(CannotConfine, match="did not start"):
        tracing.check()


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files, children = len(os.listdir("/proc/self/fd")), psutil.Process().children()
    trace_confined(RIGHT, "tried", PROBLEM)
    answering(monkeypatch, "print('confined', flush=True); import time; time.sleep(600)")
    began = monotonic()
    with pytest.raises(Rejected):
        trace_confined(RIGHT, "tried", PROBLEM, limits=Limits(wall_s=0.1))
    assert monotonic() - began < 300
    assert list(tmp_path.iterdir()) == [] and len(os.listdir("/proc/self/fd")) == files
    assert psutil.Process().children() == children
