"""The strategy language: what it computes, what it refuses (with the line), and that everything ends."""

import pytest

from overlayccl_core.program import interpreter, scopes
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.program import Program
from overlayccl_core.program.source_check import function_at
from overlayccl_core.program.tracing import trace_source
from tests.small_problems import exchange, traced

SHARED = "{0} = [0] * 1000\nfor i in range(4):\n    {0} = [{0}] * 1000\n"  # 10^15 items below 4000 references
PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)}, chunk=2)


def run(body: str) -> Program:
    return traced(body, PROBLEM)


def value_of(expression: str) -> object:
    """What the interpreter computes for an expression of the language."""
    scope = interpreter.load(f"def f(a):\n    return {expression}\n")
    return scope.names["f"].call([0], {}, scope)


def test_a_strategy_of_one_line_becomes_a_program() -> None:
    assert [x.kind for x in run('io.write("y", all_reduce(io.read("x")))').nodes] == ["input", "all_reduce"]


@pytest.mark.parametrize(
    "expression",
    [
        "[i * i for i in range(5) if i % 2 == 0]",
        "[(i, j) for i in range(3) for j in range(i)]",
        "sum(i for i in range(10))",
        "[a for a, b in zip([1, 2], [3, 4]) if b > 3]",
        "list(enumerate(reversed(range(3))))",
        "(1 if 3 in [1, 2] else 2) + len((1, 2))",
        "-7 // 2 + -7 % 3 + 2 ** 10",
        "[1, 2] * 2 + [3][0:1]",
        "max(3, 1) if not 0 and 1 else min(1, 2)",
        "divmod(17, 5)",
        "sorted([3, 1, 2])[-1]",
        "(lambda b: b + 1)(2)",
        "1 < 2 < 3 != 4",
        "sorted([3, 1, 2], key=lambda r: r ^ 3, reverse=True)",
        "(min([(1, 2), (2, 1)], key=lambda t: t[1]), max([[1], []], key=len), max([], default=7))",
        "(sum([1, 2], 3), list(enumerate('ab', 1)), list(zip([1], [2, 3], strict=False)))",
        "(int(2 < 3), bool([]), list(range(10, 0, -3)), list(range(5))[::-2])",
        "[r ^ (1 << k) for k in range(3) for r in range(8)]",
        "5 & 3 | 8 ^ 2 << 1 >> 1",
        "(12 & ~4, -1 >> 70, 0 << 10 ** 9, 1 << 62, -3 >> 1, True ^ True, 6 | True)",
        "[n.bit_length() for n in (0, 1, 7, 8, -8)]",
        "[r for r in range(16) if r & (r - 1) == 0]",
    ],
)
def test_expressions_mean_what_they_mean_in_python(expression: str) -> None:
    assert value_of(expression) == eval(expression)


def test_local_functions_close_over_names_and_comprehensions_do_not_leak() -> None:
    inner = "    def g(c):\n        return b * c\n"
    source = f"def f(a):\n    b = 2\n{inner}    d = [g(i) for i in range(3)]\n    return d\n"
    scope = interpreter.load(source)
    assert scope.names["f"].call([0], {}, scope) == [0, 2, 4]
    with pytest.raises(Rejected, match="unknown name 'i'"):
        value_of("[i for i in range(3)] + [i]")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import os", "line 5: import inside"),
        ("x = io.__class__", "line 5: .__class__"),
        ("x = (1).real", r"line 5: .*\.real of int"),
        ("x = p.chunks", "line 5:.*chunks: .*ranks"),
        ("while True:\n    pass", "line 5: while .*use for"),
        ("try:\n    pass\nexcept Rejected:\n    pass", "line 5: try.*applicable"),
        ("global y", "line 5: global is not"),
        ("exec('1')", "line 5: .*'exec': import"),
        ("y = __import__('os')", "two underscores"),
        ("y = 1.5", r"line 5: 1\.5: .*integers"),
        ("y = f'{p}'", "line 5: .*f-string .*not"),
        ("y = '%d' % 3", "line 5: str % int"),
        ("y = {1: 2}", "line 5: a dictionary"),
        ("y = [*range(3)]", r"line 5: \* before .*\+"),
        ("y[0] = 1", "line 5: only names"),
        ("(yield 1)", "line 5: yield is not"),
        ("y = all_reduce(3)", "line 5: .*int.* iterable"),
        ("y = all_reduce()", "line 5: .*missing .*'x'"),
        ("y = 3 / 4", "line 5: / .*scale.*//"),
        ("del io", "line 5: del is not"),
        ("y = +3", r"line 5: unary \+ .*out"),
        ("y = pow(2, 3)", r"line 5: .*'pow': .*\*\*"),
        ("y = print(2)", "line 5: .*'print'.*trace"),
        ("y = set([2])", "line 5: .*'set': .*lists"),
        ("y = [1]\ny.append(2)", r"line 6: .*append: .*\+="),
        ("y = (5).bit_count()", "line 5: .*bit_count .*n.bit_length"),
        ("y = int('5')", r"line 5: int .*\(got str"),
        ("y = sorted([1], key=2)", r"line 5: key .*\(got int"),
        ("y = io.read('x')[0]", "line 5: .*: slice_axis"),
        ("y = [i for i in io.read('x')]", "line 5: .*: slice_axis"),
        ("if io.read('x'):\n    y = 1", "line 5: .*`x is None`"),
        ("y = not io.read('x')", "line 5: .*`x is None`"),
        ("x = io.read('x')\ny = x == x", "line 6: .*their .shape"),
        ("async def f():\n    pass", "line 5: .*async function"),
        ("y = io", "y is never written"),
        ("y = (1)(2)", "line 5: int .*called"),
        ("y = p(1)", "line 5: p .*called"),
        ("for a, b in [1]:\n    pass", "int has no items"),
        ("for a, b in [(1, 2, 3)]:\n    pass", "unpack 3 values into 2"),
        ("y = [1][5]", "line 5: .*out of range"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_its_line(body: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        run(body)


def test_the_function_around_a_line_is_found() -> None:
    source = (
        "N = 1\n\n\ndef f(io):\n    def g(a):\n        return a\n    return g\n\n\ndef h(io):\n    pass\n"
    )
    assert [function_at(source, line) for line in (1, 4, 6, 11, 40)] == [None, "f", "f", "h", None]
    assert function_at("def f(io, p:\n  pass", 2) is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(io, p:\n  pass", "line 1: does not parse"),
        ("from os import path", "line 1: the only import"),
        ("from overlayccl_core.program.language import everything", "line 1: .*'everything': "),
        ("from overlayccl_core.program.language import *", r"line 1: .*no '\*': it"),
        ("print(1)", "line 1: a file .*LIBRARY"),
        ("@staticmethod\ndef f(io, p):\n    pass", "no decorators"),
        ("def f(io, p=1):\n    pass", "without defaults"),
        ("def f(*io):\n    pass", "plain arguments"),
        ("x = [1]", "a file .*LIBRARY"),
        ("class A:\n    pass", "a file .*LIBRARY"),
        ("def f(io, p):\n    pass", "'tried' .*: there are f"),
        ("\x00", "does not parse"),
        ("x = " + "(" * 5000 + ")" * 5000, "does not parse"),
    ],
)
def test_a_file_that_is_no_file_of_strategies_is_refused(source: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        trace_source(source, "tried", PROBLEM)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in range(10 ** 18):\n    pass", "does not end within"),
        ("y = [0 for i in range(10 ** 18)]", "does not end within"),
        ("y = list(range(10 ** 12))", "more than .* list items"),
        ("y = [0] * 10 ** 15", "more than .* list items"),
        ("y = 'a' * 10 ** 15", "more than .* list items"),
        ("y = 10 ** 10 ** 10", r"below 2\^63"),
        ("y = 2 ** 62 * 4", r"below 2\^63"),
        ("y = sum(range(10 ** 15))", "list items"),
        ("def f(n):\n    return f(n)\ny = f(1)", "deeper than"),
        ("def f(n):\n    return [f(n - 1), f(n - 1)] if n else 0\ny = f(33)", "does not end within"),
        (SHARED.format("a") + SHARED.format("b") + "y = a == b", "does not end within"),
        (SHARED.format("a") + "y = index_select(io.read('x'), a)", "does not end within"),
        ("y = sum([[1]] * 10)", "sum adds integers"),
        ("y = 1 << 10 ** 18", r"below 2\^63"),
        ("y = sorted(range(10 ** 9), key=lambda r: 0)", "list items"),
        (SHARED.format("a") + "y = sorted([1, 2], key=lambda r: a)", "does not end within"),
        (SHARED.format("a") + "y = max([], default=a)", "does not end within"),
        ("y = 0\nfor i in range(10 ** 3):\n    y = [y]\nz = y == y", "lists .*deeper than 32"),
        ("for i in range(10 ** 6):\n    y = [" + "0, " * 5000 + "]", "does not end within"),
        ("y = [(" + "0, " * 5000 + ") for i in range(10 ** 5)]", "does not end within"),
        ("f = lambda: [" + "0, " * 5000 + "]\nfor i in range(10 ** 5):\n    f()", "does not end within"),
        ("y = 1" + " + 1" * 500, "line 5: .*100 levels"),
        ("def f(n):\n    return " + "[" * 40 + "f(n - 1)" + "]" * 40 + "\ny = f(9)", "calls nest deeper"),
        ("f = lambda n: sorted([n], key=lambda i: f(i - 1))\ny = f(9)", "calls nest deeper"),
        ("y = zeros((2 ** 40, 2 ** 40))", "make it smaller"),
        ("y = broadcast(io.read('x'), 0, 2 ** 40)", "separate runs"),
        ("x = io.read('x')\nfor i in range(100):\n    x = concat([x, x])", "separate runs"),
    ],
)
def test_endless_loops_and_bombs_end_by_fuel(
    body: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a twentieth of the fuel: tests/hostile holds how soon all of it is used up."""
    monkeypatch.setattr(scopes, "MAX_STEPS", scopes.MAX_STEPS // 20)
    monkeypatch.setattr(scopes, "MAX_ITEMS", scopes.MAX_ITEMS // 20)
    with pytest.raises(Rejected, match=message):
        run(body)


@pytest.mark.parametrize("depth", [1, 4, 17])
@pytest.mark.parametrize(
    "around",
    [
        *("(1 + {})", "[{}]", "min(0, {})", "[1][{} - 1]", "(1 and {})", "(not {})", "g({})", "(0, {})[0:1]"),
        *("[{} for j in [1] if j]", "sorted([1], key=lambda i: {})", "({} if {} else 1)", "(0 < {} < 2)"),
        "chunked(lambda chunk, p: {}, zeros((1,)), 1)",
    ],
)
def test_functions_that_call_themselves_are_refused_before_python_gives_up(around: str, depth: int) -> None:
    called = "f(n + 1)"
    for _ in range(depth if around.count("{}") == 1 else 1):
        called = around.replace("{}", called)
    with pytest.raises(Rejected, match="calls nest deeper"):
        run(f"g = lambda i: i\nf = lambda n: {called}\ny = f(1)")


def test_a_message_stays_readable() -> None:
    with pytest.raises(Rejected, match=r"write y: .*got \[0, 1, ") as error:
        run("io.write('y', list(range(10 ** 5)))")
    assert len(str(error.value)) < 1100 and str(error.value).endswith("characters)")


def test_a_strategy_can_say_that_it_is_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="one tier"):
        run("if p.ranks_per_node == p.ranks:\n    not_applicable('one tier')")


def test_fuel_is_spent_alike_on_every_run() -> None:
    spent = []
    for _ in range(2):
        fuel = scopes.Fuel()
        scope = interpreter.load("def f(a):\n    return sum([i * i for i in range(100)])\n", fuel)
        scope.names["f"].call([0], {}, scope)
        spent.append((fuel.steps, fuel.items))
    assert spent[0] == spent[1] and spent[0][0] < scopes.MAX_STEPS
