"""Expressions of the strategy language, compiled to closures over scopes."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from overlayccl_core.program import chunks
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.operators import BINARY, UNARY, computed, kind_of, not_integers
from overlayccl_core.program.recorder import IO, Value
from overlayccl_core.program.scopes import (
    STEPS_PER_COMPARISON,
    STEPS_PER_OPERATION,
    Builtin,
    Code,
    Compiled,
    Function,
    Parameters,
    Scope,
    Ways,
    items_of,
    sequence,
    steps_of,
)


def expression(node: ast.expr) -> Compiled:
    """A checked expression as a closure over scopes."""
    match node:
        case ast.Constant(value=value):
            return lambda scope: value
        case ast.Name(id=name):
            return _located(lambda scope: scope.find(name), node)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts, kind = [expression(e) for e in elements], tuple if isinstance(node, ast.Tuple) else list
            return lambda scope: kind(part(scope) for part in parts)
        case ast.ListComp() | ast.GeneratorExp():
            return _comprehension(node)
        case ast.Call():
            return _call(node)
        case ast.BinOp():
            return binary(node.op, expression(node.left), expression(node.right), node)
        case ast.UnaryOp(op=ast.Not()):
            operand = condition(node.operand)
            return lambda scope: not operand(scope)
        case ast.UnaryOp():
            return _unary(node)
        case ast.BoolOp():
            return _boolean(node)
        case ast.Compare():
            return _compare(node)
        case ast.IfExp():
            test, then, other = condition(node.test), expression(node.body), expression(node.orelse)
            return lambda scope: then(scope) if test(scope) else other(scope)
        case ast.Subscript():
            return _subscript(node)
        case ast.Attribute():
            base, name = expression(node.value), node.attr
            return _located(lambda scope: _attribute(base(scope), name), node)
        case _:
            assert isinstance(node, ast.Lambda)
            code = Code.of(node, expression(node.body))
            return lambda scope: Function(code, scope)


def condition(node: ast.expr) -> Compiled:
    """A checked expression as true or false; a value of the Program is neither."""
    value = expression(node)
    return _located(lambda scope: bool(value(scope)), node)


def items(node: ast.expr) -> Compiled:
    """A checked expression as something with items."""
    value = expression(node)
    return _located(lambda scope: sequence(value(scope)), node)


def _located(run: Compiled, node: ast.expr | ast.stmt) -> Compiled:
    """Give errors below the line they came from, and turn Python's own into Rejected."""

    def guarded(scope: Scope) -> Any:
        try:
            return run(scope)
        except Rejected as error:
            raise error.at(node.lineno) from None
        except (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, AttributeError) as error:
            raise Rejected(str(error)).at(node.lineno) from error

    return guarded


def _attribute(base: Any, name: str) -> Any:
    if isinstance(base, Parameters | Ways):
        return base.get(name)
    if isinstance(base, IO) and name in ("read", "write"):
        return getattr(base, name)
    if isinstance(base, Value) and name in ("shape", "dtype"):
        return getattr(base, name)
    if isinstance(base, chunks.Reference) and name in ("copy", "reduce"):
        return getattr(base, name)
    if isinstance(base, int) and name == "bit_length":
        return base.bit_length
    if isinstance(base, list) and name in ("append", "extend"):
        raise Rejected(f"no .{name}: lists are joined, a += [x] or a comprehension")
    raise Rejected(
        f"no attribute .{name} of {kind_of(base)}: there are p.<name>, io.read, io.write, x.shape, x.dtype, c.copy,"
        " c.reduce and n.bit_length"
    )


def _comprehension(node: ast.ListComp | ast.GeneratorExp) -> Compiled:
    levels = [(items(g.iter), target(g.target), [condition(i) for i in g.ifs]) for g in node.generators]
    element, steps = expression(node.elt), 1 + steps_of(node)

    def collect(scope: Scope, level: int, made: list[Any]) -> None:
        below, bind, tests = levels[level]
        for item in below(scope):
            scope.fuel.spend(steps)
            bind(scope, item)
            if all(test(scope) for test in tests):
                if level + 1 < len(levels):
                    collect(scope, level + 1, made)
                else:
                    scope.fuel.make(1)
                    made.append(element(scope))

    def run(scope: Scope) -> list[Any]:
        made: list[Any] = []
        collect(Scope(scope.fuel, scope, scope.nesting), 0, made)
        return made

    return _located(run, node)


def _call(node: ast.Call) -> Compiled:
    function = expression(node.func)
    parts = [expression(a) for a in node.args]
    named = {str(k.arg): expression(k.value) for k in node.keywords}

    def run(scope: Scope) -> Any:
        scope.fuel.spend()
        called = function(scope)
        arguments = [part(scope) for part in parts]
        keywords = {name: part(scope) for name, part in named.items()}
        if isinstance(called, Function):
            return called.call(arguments, keywords, scope)
        if isinstance(called, Builtin):
            return called.run(scope, *arguments, **keywords)
        if not callable(called):
            raise Rejected(f"{kind_of(called)} cannot be called")
        for argument in (*arguments, *keywords.values()):
            scope.fuel.weigh(argument)
        chunks.place.set((scope.file, node.lineno))
        plain = [_for_words(argument, scope) for argument in arguments]
        return called(*plain, **{name: _for_words(value, scope) for name, value in keywords.items()})

    return _located(run, node)


def _for_words(argument: Any, caller: Scope) -> Any:
    """A function of the source as one of Python's, which a word may call."""
    if isinstance(argument, Function):
        return lambda *arguments: argument.call(arguments, {}, caller)
    return argument


def binary(op: ast.operator, left: Compiled, right: Compiled, node: ast.expr | ast.stmt) -> Compiled:
    """An operation on integers, or joining and repeating of sequences."""
    sign = BINARY[type(op)]

    def run(scope: Scope) -> Any:
        scope.fuel.spend(STEPS_PER_OPERATION)
        a, b = left(scope), right(scope)
        if isinstance(a, int) and isinstance(b, int):
            return computed(sign, a, b)
        joins = sign.symbol == "+" and type(a) is type(b) and isinstance(a, list | tuple | str)
        repeats = sign.symbol == "*" and isinstance(a, list | tuple | str) and isinstance(b, int)
        if not joins and not repeats:
            raise not_integers(sign.symbol, a, b)
        scope.fuel.make(len(a) + len(b) if joins else len(a) * max(b, 0))
        return sign.apply(a, b)

    return _located(run, node)


def _unary(node: ast.UnaryOp) -> Compiled:
    sign, operand = UNARY[type(node.op)], expression(node.operand)

    def run(scope: Scope) -> int:
        scope.fuel.spend()
        a = operand(scope)
        if not isinstance(a, int):
            raise not_integers(sign.symbol, a)
        return computed(sign, 0, a)

    return _located(run, node)


def _boolean(node: ast.BoolOp) -> Compiled:
    parts, stop = [expression(v) for v in node.values], isinstance(node.op, ast.Or)

    def run(scope: Scope) -> Any:
        last = None
        for part in parts:
            last = part(scope)
            if bool(last) is stop:
                break
        return last

    return _located(run, node)


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


_IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def _compare(node: ast.Compare) -> Compiled:
    parts = [expression(e) for e in (node.left, *node.comparators)]
    tests = [(op, _COMPARE[type(op)]) for op in node.ops]

    def run(scope: Scope) -> bool:
        scope.fuel.spend(STEPS_PER_COMPARISON)
        left = parts[0](scope)
        for (op, test), part in zip(tests, parts[1:], strict=True):
            right = part(scope)
            scope.fuel.weigh(left)
            scope.fuel.weigh(right)
            if (isinstance(left, Value) or isinstance(right, Value)) and not isinstance(op, _IDENTITY):
                raise Rejected("values are not known while a strategy is traced: compare their .shape")
            if not test(left, right):
                return False
            left = right
        return True

    return _located(run, node)


def _subscript(node: ast.Subscript) -> Compiled:
    base = expression(node.value)
    if isinstance(node.slice, ast.Slice):
        ends = [expression(e) if e else None for e in (node.slice.lower, node.slice.upper, node.slice.step)]

        def cut(scope: Scope) -> Any:
            part = sequence(base(scope))[slice(*(e(scope) if e else None for e in ends))]
            scope.fuel.make(len(part))
            return part

        return _located(cut, node)
    index = expression(node.slice)
    return _located(lambda scope: sequence(base(scope))[index(scope)], node)


def target(node: ast.expr) -> Callable[[Scope, Any], None]:
    """Bind a name, or the names of a tuple."""
    if isinstance(node, ast.Name):
        name = node.id
        return lambda scope, value: scope.names.__setitem__(name, value)
    assert isinstance(node, ast.Tuple | ast.List)
    parts = [target(t) for t in node.elts]

    def unpack(scope: Scope, value: Any) -> None:
        items = items_of(scope, value)
        if len(items) != len(parts):
            raise Rejected(f"cannot unpack {len(items)} values into {len(parts)} names").at(node.lineno)
        for part, item in zip(parts, items, strict=True):
            part(scope, item)

    return unpack
