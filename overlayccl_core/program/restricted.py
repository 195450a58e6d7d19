"""The strategy language: a small part of Python, checked node by node and interpreted with fuel.

A source is never executed as Python. Each syntax node on the allow-list is compiled to a closure over this
module's own scopes; every call, iteration and made item spends fuel, so endless loops and bombs end after the
same number of steps on every machine. Nothing reachable has attributes beyond `p.<name>`, `io.read`,
`io.write`, `.shape` and `.dtype`.
"""

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program import language
from overlayccl_core.program.kinds import Kind, NotApplicable, Rejected
from overlayccl_core.program.source_check import OPERATIONS, check_tree
from overlayccl_core.program.tracer import IO, Value

MAX_STEPS = 4_000_000
MAX_ITEMS = 4_000_000  # made in lists, tuples and texts, in all
MAX_INTEGER = 2**63
MAX_DEPTH = 64
STEPS_PER_CALL = 8  # of a function of the source, which takes about as long as so many operations
RUNS_PER_STEP = 8  # a step of fuel for so many runs of a layout

Compiled = Callable[["Scope"], Any]


class Fuel:
    """What a source may spend: steps and made items."""

    __slots__ = ("items", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.items = MAX_ITEMS

    def spend(self, steps: int = 1) -> None:
        """Take steps away; Rejected when they are used up."""
        self.steps -= steps
        if self.steps < 0:
            raise Rejected(f"the strategy does not end within {MAX_STEPS} steps: loop over fewer things")

    def make(self, items: int) -> None:
        """Take items away, before they are made."""
        self.items -= items
        self.steps -= items
        if self.items < 0:
            raise Rejected(f"the strategy makes more than {MAX_ITEMS} list items: build smaller tables")


class Scope:
    """Names of one call or comprehension."""

    __slots__ = ("depth", "fuel", "names", "parent")

    def __init__(self, fuel: Fuel, parent: "Scope | None", depth: int) -> None:
        self.fuel = fuel
        self.names: dict[str, Any] = {}
        self.parent = parent
        self.depth = depth

    def find(self, name: str) -> Any:
        """The value of a name; Rejected if there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        raise Rejected(f"unknown name {name!r}: import it from the language, or define it")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a strategy sees as `p`."""

    values: dict[str, Any]

    def get(self, name: str) -> Any:
        """One parameter; Rejected naming those there are."""
        if name not in self.values:
            raise Rejected(f"no parameter p.{name}: there are {', '.join(sorted(self.values))}")
        return self.values[name]


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Function:
    """A function of the source."""

    __slots__ = ("body", "is_lambda", "names", "scope")

    def __init__(self, names: list[str], body: Compiled, scope: Scope, is_lambda: bool) -> None:
        self.names = names
        self.body = body
        self.scope = scope
        self.is_lambda = is_lambda

    def call(self, arguments: Sequence[Any], named: dict[str, Any], caller: Scope) -> Any:
        """Bind the arguments and run the body."""
        given = dict(zip(self.names, arguments, strict=False))
        if len(arguments) > len(self.names) or set(given) & set(named) or {*given, *named} != set(self.names):
            raise Rejected(f"the function takes {', '.join(self.names)} (got {len(arguments) + len(named)} arguments)")
        if caller.depth >= MAX_DEPTH:
            raise Rejected(f"calls nest deeper than {MAX_DEPTH}: use a loop")
        scope = Scope(self.scope.fuel, self.scope, caller.depth + 1)
        scope.names.update(given, **named)
        if self.is_lambda:
            return self.body(scope)
        try:
            self.body(scope)
        except _Return as done:
            return done.value
        return None


def load(source: str, fuel: Fuel | None = None) -> Scope:
    """The names that a source defines; Rejected with the line if it is not in the language."""
    tree = check_tree(source)
    scope = Scope(fuel or Fuel(), None, 0)
    scope.names.update(_BUILTINS)
    for statement in tree.body:
        match statement:
            case ast.ImportFrom():
                for alias in statement.names:
                    scope.names[alias.asname or alias.name] = getattr(language, alias.name)
            case ast.FunctionDef() | ast.Assign() if not _is_library(statement):
                _statement(statement)(scope)
    return scope


def call(scope: Scope, name: str, io: IO, parameters: dict[str, Any]) -> None:
    """Run one function of a loaded source as a strategy."""
    function = scope.names.get(name)
    if not isinstance(function, Function):
        known = [n for n, v in scope.names.items() if isinstance(v, Function) and not n.startswith("_")]
        raise Rejected(f"no strategy {name!r} in the source: there are {', '.join(known) or 'none'}")
    function.call([io, Parameters(parameters)], {}, scope)


def _is_library(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)


# --------------------------------------------------------------------------------------------- statements
def _block(statements: list[ast.stmt]) -> Compiled:
    compiled = [_statement(s) for s in statements]

    def run(scope: Scope) -> None:
        for step in compiled:
            step(scope)

    return run


def _statement(node: ast.stmt) -> Compiled:
    match node:
        case ast.FunctionDef():
            names, body = [a.arg for a in node.args.args], _block(node.body)
            return lambda scope: scope.names.__setitem__(node.name, Function(names, body, scope, False))
        case ast.Assign():
            return _assign(node)
        case ast.AugAssign(target=ast.Name(id=name)):
            new = _binary(node.op, _expression(ast.copy_location(ast.Name(name), node)), _expression(node.value), node)
            return lambda scope: scope.names.__setitem__(name, new(scope))
        case ast.Expr():
            return _expression(node.value)
        case ast.Return():
            value = _expression(node.value) if node.value else lambda scope: None

            def leave(scope: Scope) -> None:
                raise _Return(value(scope))

            return leave
        case ast.For():
            return _for(node)
        case ast.If():
            test, then, other = _expression(node.test), _block(node.body), _block(node.orelse)
            return lambda scope: then(scope) if test(scope) else other(scope)
        case _:
            return lambda scope: None  # pass


def _assign(node: ast.Assign) -> Compiled:
    value, binds = _expression(node.value), [_target(t) for t in node.targets]

    def run(scope: Scope) -> None:
        found = value(scope)
        for bind in binds:
            bind(scope, found)

    return run


def _target(node: ast.expr) -> Callable[[Scope, Any], None]:
    """Bind a name, or the names of a tuple."""
    if isinstance(node, ast.Name):
        name = node.id
        return lambda scope, value: scope.names.__setitem__(name, value)
    assert isinstance(node, ast.Tuple | ast.List)
    parts = [_target(t) for t in node.elts]

    def unpack(scope: Scope, value: Any) -> None:
        items = _items(scope, value)
        if len(items) != len(parts):
            raise Rejected(f"cannot unpack {len(items)} values into {len(parts)} names").at(node.lineno)
        for part, item in zip(parts, items, strict=True):
            part(scope, item)

    return unpack


def _for(node: ast.For) -> Compiled:
    items, bind, body = _expression(node.iter), _target(node.target), _block(node.body)

    def run(scope: Scope) -> None:
        for item in _iterable(items(scope), node):
            scope.fuel.spend()
            bind(scope, item)
            body(scope)

    return run


# -------------------------------------------------------------------------------------------- expressions
def _expression(node: ast.expr) -> Compiled:
    match node:
        case ast.Constant(value=value):
            return lambda scope: value
        case ast.Name(id=name):
            return _located(lambda scope: scope.find(name), node)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts, kind = [_expression(e) for e in elements], tuple if isinstance(node, ast.Tuple) else list
            return lambda scope: kind(part(scope) for part in parts)
        case ast.ListComp() | ast.GeneratorExp():
            return _comprehension(node)
        case ast.Call():
            return _call(node)
        case ast.BinOp():
            return _binary(node.op, _expression(node.left), _expression(node.right), node)
        case ast.UnaryOp(op=ast.Not()):
            operand = _expression(node.operand)
            return lambda scope: not operand(scope)
        case ast.UnaryOp():
            zero = _expression(ast.copy_location(ast.Constant(0), node))
            return _binary(ast.Sub(), zero, _expression(node.operand), node)
        case ast.BoolOp():
            return _boolean(node)
        case ast.Compare():
            return _compare(node)
        case ast.IfExp():
            test, then, other = _expression(node.test), _expression(node.body), _expression(node.orelse)
            return lambda scope: then(scope) if test(scope) else other(scope)
        case ast.Subscript():
            return _subscript(node)
        case ast.Attribute():
            base, name = _expression(node.value), node.attr
            return _located(lambda scope: _attribute(base(scope), name), node)
        case _:
            assert isinstance(node, ast.Lambda)
            names, body = [a.arg for a in node.args.args], _expression(node.body)
            return lambda scope: Function(names, body, scope, True)


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
    if isinstance(base, Parameters):
        return base.get(name)
    if isinstance(base, IO) and name in ("read", "write"):
        return getattr(base, name)
    if isinstance(base, Value) and name in ("shape", "dtype"):
        return getattr(base, name)
    raise Rejected(f"no attribute .{name} here: there are p.<name>, io.read, io.write, .shape and .dtype")


def _comprehension(node: ast.ListComp | ast.GeneratorExp) -> Compiled:
    levels = [
        (_expression(g.iter), _target(g.target), [_expression(i) for i in g.ifs], g.iter) for g in node.generators
    ]
    element = _expression(node.elt)

    def collect(scope: Scope, level: int, found: list[Any]) -> None:
        items, bind, tests, where = levels[level]
        for item in _iterable(items(scope), where):
            scope.fuel.spend()
            bind(scope, item)
            if all(test(scope) for test in tests):
                if level + 1 < len(levels):
                    collect(scope, level + 1, found)
                else:
                    scope.fuel.make(1)
                    found.append(element(scope))

    def run(scope: Scope) -> list[Any]:
        found: list[Any] = []
        collect(Scope(scope.fuel, scope, scope.depth), 0, found)
        return found

    return _located(run, node)


def _call(node: ast.Call) -> Compiled:
    function = _expression(node.func)
    parts = [_expression(a) for a in node.args]
    named = {str(k.arg): _expression(k.value) for k in node.keywords}

    def run(scope: Scope) -> Any:
        scope.fuel.spend()
        called = function(scope)
        arguments = [part(scope) for part in parts]
        keywords = {name: part(scope) for name, part in named.items()}
        if isinstance(called, Function):
            scope.fuel.spend(STEPS_PER_CALL)
            return called.call(arguments, keywords, scope)
        if isinstance(called, _Builtin):
            return called.run(scope.fuel, *arguments, **keywords)
        if not callable(called):
            raise Rejected(f"{type(called).__name__} cannot be called")
        result = called(*arguments, **keywords)
        if isinstance(result, Value) and result.node.kind is Kind.VIEW:
            scope.fuel.spend(result.node.map.runs // RUNS_PER_STEP)
        return result

    return _located(run, node)


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def _binary(op: ast.operator, left: Compiled, right: Compiled, node: ast.expr | ast.stmt) -> Compiled:
    apply, symbol = _ARITHMETIC[type(op)], OPERATIONS[type(op)]

    def run(scope: Scope) -> Any:
        scope.fuel.spend()
        a, b = left(scope), right(scope)
        if isinstance(a, int) and isinstance(b, int):
            if symbol == "**" and (b < 0 or b * (abs(a).bit_length() - 1) >= 63):
                raise Rejected(f"{a} ** {b}: integers must stay below 2^63")
            found = apply(a, b)
            if not -MAX_INTEGER < found < MAX_INTEGER:
                raise Rejected(f"{symbol} gives {found.bit_length()} bits: integers must stay below 2^63")
            return found
        joins = symbol == "+" and type(a) is type(b) and isinstance(a, list | tuple | str)
        repeats = symbol == "*" and isinstance(a, list | tuple | str) and isinstance(b, int)
        if not joins and not repeats:
            raise Rejected(f"{type(a).__name__} {symbol} {type(b).__name__}: integers only (add() adds values)")
        scope.fuel.make(len(a) + len(b) if joins else len(a) * max(b, 0))
        return apply(a, b)

    return _located(run, node)


def _boolean(node: ast.BoolOp) -> Compiled:
    parts, stop = [_expression(v) for v in node.values], isinstance(node.op, ast.Or)

    def run(scope: Scope) -> Any:
        found = None
        for part in parts:
            found = part(scope)
            if bool(found) is stop:
                break
        return found

    return run


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


def _compare(node: ast.Compare) -> Compiled:
    parts = [_expression(e) for e in (node.left, *node.comparators)]
    tests = [_COMPARE[type(op)] for op in node.ops]

    def run(scope: Scope) -> bool:
        scope.fuel.spend()
        left = parts[0](scope)
        for test, part in zip(tests, parts[1:], strict=True):
            right = part(scope)
            if isinstance(right, list | tuple | str):
                scope.fuel.spend(len(right))
            if not test(left, right):
                return False
            left = right
        return True

    return _located(run, node)


def _subscript(node: ast.Subscript) -> Compiled:
    base = _expression(node.value)
    if isinstance(node.slice, ast.Slice):
        ends = [_expression(e) if e else None for e in (node.slice.lower, node.slice.upper, node.slice.step)]

        def cut(scope: Scope) -> Any:
            found = _sequence(base(scope))[slice(*(e(scope) if e else None for e in ends))]
            scope.fuel.make(len(found))
            return found

        return _located(cut, node)
    index = _expression(node.slice)
    return _located(lambda scope: _sequence(base(scope))[index(scope)], node)


# ------------------------------------------------------------------------------------------------- pieces
def _sequence(value: Any) -> Any:
    if not isinstance(value, list | tuple | range | str):
        raise Rejected(f"{type(value).__name__} has no items: a list, tuple or range has")
    return value


def _iterable(value: Any, node: ast.expr) -> Iterable[Any]:
    try:
        return _sequence(value)  # type: ignore[no-any-return]
    except Rejected as error:
        raise error.at(node.lineno) from None


def _items(scope: Scope, value: Any) -> list[Any]:
    found = _sequence(value)
    scope.fuel.make(len(found))
    return list(found)


@dataclass(frozen=True, slots=True)
class _Builtin:
    """One of Python's functions, on sequences that were paid for."""

    function: Callable[..., Any]

    def run(self, fuel: Fuel, *arguments: Any, **named: Any) -> Any:
        for value in arguments:
            if isinstance(value, list | tuple | range | str):
                fuel.make(len(value))
            elif not isinstance(value, int):
                raise Rejected(f"{type(value).__name__} is no argument here: integers and sequences of them are")
        found = self.function(*arguments, **named)
        if isinstance(found, int) and not -MAX_INTEGER < found < MAX_INTEGER:
            raise Rejected(f"{found.bit_length()} bits: integers must stay below 2^63")
        return found


_BUILTINS = {
    "range": _Builtin(range),
    "len": _Builtin(len),
    "min": _Builtin(min),
    "max": _Builtin(max),
    "sum": _Builtin(sum),
    "abs": _Builtin(abs),
    "all": _Builtin(all),
    "any": _Builtin(any),
    "divmod": _Builtin(divmod),
    "list": _Builtin(list),
    "tuple": _Builtin(tuple),
    "sorted": _Builtin(sorted),
    "reversed": _Builtin(lambda items: list(reversed(items))),
    "enumerate": _Builtin(lambda items, start=0: list(enumerate(items, start))),
    "zip": _Builtin(lambda *items, strict=True: list(zip(*items, strict=True))),
}

__all__ = ["Fuel", "Function", "NotApplicable", "Parameters", "Scope", "call", "load"]
