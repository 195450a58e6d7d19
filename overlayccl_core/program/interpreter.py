"""The strategy language: a small part of Python, checked node by node and interpreted with fuel.

A source is never executed as Python. Each syntax node on the allow-list is compiled to a closure over scopes of
our own; every call, iteration and made item spends fuel, so endless loops and bombs end after the same number of
steps on every machine. Nothing reachable has attributes beyond `p.<name>`, `io.read`, `io.write`, `x.shape`,
`x.dtype`, `c.copy`, `c.reduce` and `n.bit_length`. This file: loading, calling, statements. `expressions.py`:
expressions. `operators.py`: arithmetic. `scopes.py`: fuel, names, functions.
"""

import ast
from functools import lru_cache

from overlayccl_core.program import language
from overlayccl_core.program.expressions import binary, condition, expression, items, target
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.recorder import IO
from overlayccl_core.program.scopes import (
    BUILTINS,
    Code,
    Compiled,
    Fuel,
    Function,
    Parameters,
    Return,
    Scope,
    Ways,
    steps_of,
)
from overlayccl_core.program.source_check import WAYS_MODULE
from overlayccl_core.program.ways import FOLDER, WaysOf, offers, reached, tree_of, ways_of


def load(source: str, fuel: Fuel | None = None, ways: WaysOf = ways_of) -> Scope:
    """Return the scope with a source's names; Rejected with the line if it is not in the language."""
    return _loaded(source, fuel or Fuel(), ways, ())


def _loaded(source: str, fuel: Fuel, ways: WaysOf, files: tuple[str, ...]) -> Scope:
    """As `load`; files: the chain of importing files of ways, with this source's file last."""
    scope = Scope(fuel, None, 0, f"{FOLDER}/{files[-1]}.py" if files else "")
    scope.names.update(BUILTINS)
    try:
        statements = _kept(source, reached(source, ways))
    except Rejected:
        statements = _compiled(source, ways)  # raises with the line
    for statement, step in statements:
        if step is not None:
            step(scope)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                try:
                    scope.names[alias.asname or alias.name] = _ways(alias.name, fuel, ways, files)
                except Rejected as error:
                    raise error.at(statement.lineno) from None
    return scope


_Statements = tuple[tuple[ast.stmt, Compiled | None], ...]


@lru_cache(maxsize=64)
def _kept(source: str, files: tuple[tuple[str, tuple[str, ...]], ...]) -> _Statements:
    """Compile the same source with the same ways once, for all Problems."""
    return _compiled(source, dict(files).__getitem__)


def _compiled(source: str, ways: WaysOf) -> _Statements:
    """The statements of a source, with the effect of each on its scope; imports of ways are left to do."""
    return tuple((statement, _top(statement)) for statement in tree_of(source, ways).body)


def _top(statement: ast.stmt) -> Compiled | None:
    match statement:
        case ast.ImportFrom(module=module, names=names) if module != WAYS_MODULE:
            words = {alias.asname or alias.name: alias.name for alias in names}
            return lambda scope: scope.names.update({n: getattr(language, w) for n, w in words.items()})
        case ast.FunctionDef() | ast.Assign() if not offers(statement):
            return _statement(statement)
        case _:
            return None


def _ways(name: str, fuel: Fuel, ways: WaysOf, files: tuple[str, ...]) -> Ways:
    """A file of ways, with the additions of your own folder."""
    if name in files:
        raise Rejected(f"ways import each other in a circle: {' -> '.join((*files, name))}")
    functions: dict[str, Function] = {}
    for text in ways(name):
        try:
            defined = _loaded(text, fuel, ways, (*files, name)).names.items()
        except Rejected as error:
            raise Rejected(f"{FOLDER}/{name}.py, line {error.line}: {error.args[0]}") from error
        functions |= {n: f for n, f in defined if isinstance(f, Function) and not n.startswith("_")}
    return Ways(name, functions)


def call(scope: Scope, name: str, io: IO, parameters: Parameters) -> None:
    """Run one function of a loaded source as a strategy."""
    function = scope.names.get(name)
    if not isinstance(function, Function):
        known = [n for n, v in scope.names.items() if isinstance(v, Function) and not n.startswith("_")]
        raise Rejected(f"no strategy {name!r} in the source: there are {', '.join(known) or 'none'}")
    function.call([io, parameters], {}, scope)


def _block(statements: list[ast.stmt]) -> Compiled:
    compiled = [_statement(s) for s in statements]

    def run(scope: Scope) -> None:
        for step in compiled:
            step(scope)

    return run


def _statement(node: ast.stmt) -> Compiled:
    match node:
        case ast.FunctionDef():
            code = Code.of(node, _block(node.body))
            return lambda scope: scope.names.__setitem__(node.name, Function(code, scope))
        case ast.Assign():
            return _assign(node)
        case ast.AugAssign(target=ast.Name(id=name)):
            new = binary(
                node.op, expression(ast.copy_location(ast.Name(name), node)), expression(node.value), node
            )
            return lambda scope: scope.names.__setitem__(name, new(scope))
        case ast.Expr():
            return expression(node.value)
        case ast.Return():
            value = expression(node.value) if node.value else lambda scope: None

            def leave(scope: Scope) -> None:
                raise Return(value(scope))

            return leave
        case ast.For():
            return _for(node)
        case ast.If():
            test, then, other = condition(node.test), _block(node.body), _block(node.orelse)
            return lambda scope: then(scope) if test(scope) else other(scope)
        case _:
            return lambda scope: None  # pass


def _assign(node: ast.Assign) -> Compiled:
    value, binds = expression(node.value), [target(t) for t in node.targets]

    def run(scope: Scope) -> None:
        assigned = value(scope)
        for bind in binds:
            bind(scope, assigned)

    return run


def _for(node: ast.For) -> Compiled:
    below, bind, body = items(node.iter), target(node.target), _block(node.body)
    steps = 1 + steps_of(*node.body)

    def run(scope: Scope) -> None:
        for item in below(scope):
            scope.fuel.spend(steps)
            bind(scope, item)
            body(scope)

    return run
