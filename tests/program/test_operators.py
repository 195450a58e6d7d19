"""Operators of the strategy language: Python's on integers, refused before they grow, and for anything else."""

import ast
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core.program import interpreter
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.operators import BINARY, MAX_INTEGER, UNARY
from tests.program.test_interpreter import PROBLEM, value_of
from tests.small_problems import traced

BINARY_SYMBOLS = [o.symbol for o in BINARY.values()]
UNARY_SYMBOLS = [o.symbol for o in UNARY.values()]
INTEGERS = st.one_of(st.integers(-9, 9), st.integers(-(2**62), 2**62)).map(lambda n: f"({n})")
WORDS = (
    "{} if {} else {}",
    "min({}, {}, {})",
    "int({} < {} <= {})",
    "[{}, {}, {}][1]",
    "({}) // ({}) % ({})",
)


def stays_small(node: ast.AST) -> bool:
    """True if Python computes every part of an expression, and none of them leaves the language's integers."""
    if not all(stays_small(child) for child in ast.iter_child_nodes(node)):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        a, b = (eval(ast.unparse(side)) for side in (node.left, node.right))
        by_shift = isinstance(node.op, ast.LShift)
        if b < 0 or ((a if by_shift else abs(a) > 1) and b > 64):
            return False
    if not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Constant):
        return True
    try:
        return bool(-MAX_INTEGER < eval(ast.unparse(node)) < MAX_INTEGER)
    except (ValueError, ZeroDivisionError):
        return False


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions of smaller ones; without parentheses, so that they bind as the operators do."""
    binary = st.builds("{} {} {}".format, parts, st.sampled_from(BINARY_SYMBOLS), parts)
    unary = st.builds("{}{}".format, st.sampled_from(UNARY_SYMBOLS), parts)
    words = st.builds(str.format, st.sampled_from(WORDS), parts, parts, parts)
    return st.one_of(binary, unary, words.map("({})".format))


def quietly(expression: str) -> object:
    with warnings.catch_warnings():  # of ~True
        warnings.simplefilter("ignore")
        return eval(expression)


@settings(max_examples=300, deadline=None)
@given(st.recursive(INTEGERS, joined, max_leaves=8))
def test_every_expression_of_integers_means_what_it_means_in_python(expression: str) -> None:
    if stays_small(ast.parse(expression, mode="eval").body):
        assert value_of(expression) == quietly(expression)
    else:
        try:
            computed = value_of(expression)
        except Rejected:
            return
        assert computed == quietly(expression), "a part that would not stay small was not needed"


def test_operators_assign_in_place_and_compute_the_constants_of_a_file() -> None:
    body = "    a ^= 5\n    a <<= 2\n    a |= 1\n    a >>= 1\n    a &= ~2\n    return a + MIB\n"
    scope = interpreter.load(f"MIB = 1 << 2 * 10\n\n\ndef f(a):\n{body}")
    assert scope.names["f"].call([3], {}, scope) == ((3 ^ 5) << 2 | 1) >> 1 & ~2 | 1 << 20


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 << 10 ** 9", r"line 5: 1 << 10+:.*2\^63"),
        ("1 << 63", "5: 1 << 63: .*below 2"),
        ("-1 << 63", r"-1 << 63: .*below 2\^63"),
        ("1 << -1", "1 << -1: .*negative"),
        ("8 >> -1", "8 >> -1: .*negative"),
        ("2 ** -1", r"2 \*\* -1: .*exponent"),
        ("3 ** 10 ** 18", r"3 \*\* 10+: .*2\^63"),
        ("1.5 ^ 1", r"1\.5: constants"),
        ("'a' ^ 1", r"str \^ int: .*\(\+ joins"),
        ("[1] | [2]", r"list \| list: .*joins"),
        ("~'a'", "~str: .*integers"),
        ("None & 1", "None & int: .*integers"),
        ("p << 1", "p << int: .*integers"),
        ("x ^ 1", r"value \^ int: .*floating"),
        ("1 >> x", "int >> value: .*floating"),
        ("~x", "~value: .*floating"),
        ("x + x", r"value \+ value: .*add\("),
        ("-x", r"-value: .*sub\(.*x, -1\)"),
        ("2 * x", r"int \* value: .*\(x, n\)"),
        ("x // 2", r"value // int: .*1, n\)"),
    ],
)
def test_what_an_operator_is_not_for_is_refused_with_the_word_that_is(expression: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        traced(f"x = io.read('x'); y = {expression}", PROBLEM)
