"""Which Python a strategy's source may contain: every syntax node is checked against an allow-list first."""

import ast

from overlayccl_core.program import language
from overlayccl_core.program.advice import not_in_language
from overlayccl_core.program.kinds import Rejected

LANGUAGE_MODULE = "overlayccl_core.program.language"
MAX_SOURCE_BYTES = 256 * 1024

WORDS = frozenset(
    name
    for name, value in vars(language).items()
    if callable(value) and getattr(value, "__module__", "") == LANGUAGE_MODULE and not name.startswith("_")
)

OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}

_ALLOWED: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.ImportFrom, ast.alias, ast.FunctionDef, ast.arguments, ast.arg, ast.Lambda),
        *(ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.For, ast.If, ast.Pass),
        *(ast.Constant, ast.Name, ast.Load, ast.Store, ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp),
        *(
            ast.comprehension,
            ast.Call,
            ast.keyword,
            ast.BinOp,
            ast.UnaryOp,
            ast.BoolOp,
            ast.Compare,
            ast.IfExp,
        ),
        *(ast.Subscript, ast.Slice, ast.Attribute, ast.USub, ast.Not, ast.And, ast.Or),
        *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
        *OPERATIONS,
    }
)
_LEAVES = frozenset({ast.Load, ast.Store, *OPERATIONS})  # without fields and rules of their own


def check_tree(source: str) -> ast.Module:
    """The parsed source; Rejected with the line of the first thing that is not in the language."""
    if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
        raise Rejected(
            f"a source of more than {MAX_SOURCE_BYTES} bytes: keep one Problem's strategies in a file"
        )
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Rejected(f"does not parse: {error.msg}").at(error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Rejected(f"does not parse: {error}").at(1) from None
    for statement in tree.body:
        _check_top(statement)
    todo: list[tuple[ast.AST, int]] = [(tree, 1)]
    while todo:
        node, line = todo.pop()
        line = getattr(node, "lineno", line)
        _check(node, line)
        todo.extend((child, line) for child in _children(node) if type(child) not in _LEAVES)
    return tree


def function_at(source: str, line: int) -> str | None:
    """The top-level function that a line belongs to; None outside of one, or if the source does not parse."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = (s for s in body if isinstance(s, ast.FunctionDef) and s.lineno <= line <= (s.end_lineno or 0))
    return next((function.name for function in found), None)


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below; ast.iter_child_nodes, without its generators."""
    found: list[ast.AST] = []
    for name in node._fields:
        below = getattr(node, name, None)
        if isinstance(below, ast.AST):
            found.append(below)
        elif isinstance(below, list):
            found.extend(child for child in below if isinstance(child, ast.AST))
    return found


def _check_top(statement: ast.stmt) -> None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.FunctionDef():
            return
        case ast.ImportFrom(module=module, level=0) if module == LANGUAGE_MODULE:
            unknown = [a.name for a in statement.names if a.name not in WORDS]
            if unknown:
                words = ", ".join(sorted(WORDS))
                raise Rejected(f"the language has no {unknown[0]!r}: it has {words}").at(statement.lineno)
        case ast.Assign(targets=[ast.Name(id="LIBRARY")], value=ast.Call(func=ast.Name(id="Library"))):
            return
        case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=int())):
            return
        case ast.Import() | ast.ImportFrom():
            raise Rejected(f"the only import is: from {LANGUAGE_MODULE} import ...").at(statement.lineno)
        case _:
            raise Rejected(
                "a file of strategies holds a docstring, one import, integer constants, functions and LIBRARY"
            ).at(statement.lineno)


def _check(node: ast.AST, line: int) -> None:
    kind = type(node)
    if kind not in _ALLOWED:
        raise Rejected(not_in_language(kind)).at(line)
    if kind in _WITH_RULES:
        _check_rules(node, line)


_WITH_RULES = frozenset(
    {
        *(ast.Name, ast.arg, ast.FunctionDef, ast.Attribute, ast.Constant, ast.arguments, ast.For),
        *(ast.Assign, ast.AugAssign, ast.comprehension, ast.keyword, ast.ImportFrom),
    }
)


def _check_rules(node: ast.AST, line: int) -> None:
    """What is allowed of a kind of node, but not in every form."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) if name.startswith("__"):
            raise Rejected(f"{name!r}: names must not begin with two underscores").at(line)
        case ast.Attribute(attr=name) if name.startswith("_"):
            raise Rejected(f".{name}: attributes must not begin with an underscore").at(line)
        case ast.Constant(value=value) if not isinstance(value, int | str | None):
            raise Rejected(f"{value!r}: constants are integers and texts; a ratio is scale(x, 1, n)").at(line)
        case ast.Constant(value=int() as value) if abs(value) >= 2**63:
            raise Rejected("integers must stay below 2^63").at(line)
        case ast.FunctionDef() if node.decorator_list or getattr(node, "type_params", None):
            raise Rejected("functions of a strategy have no decorators and no type parameters").at(line)
        case ast.arguments() if (
            node.vararg or node.kwarg or node.kwonlyargs or node.posonlyargs or node.defaults
        ):
            raise Rejected("functions of a strategy take plain arguments without defaults").at(line)
        case ast.For() if node.orelse:
            raise Rejected("for ... else is not in the language").at(line)
        case ast.Assign(targets=targets) if not all(_is_target(t) for t in targets):
            raise Rejected("only names (or tuples of names) can be assigned to").at(line)
        case ast.AugAssign(target=target) if not isinstance(target, ast.Name):
            raise Rejected("only names can be assigned to").at(line)
        case ast.For(target=target) | ast.comprehension(target=target) if not _is_target(target):
            raise Rejected("a loop binds names (or tuples of names)").at(line)
        case ast.comprehension(is_async=1):
            raise Rejected("async is not in the language").at(line)
        case ast.keyword(arg=None):
            raise Rejected("** arguments are not in the language").at(line)
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            raise Rejected("name what is imported").at(line)


def _is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_target(e) for e in node.elts)
    return isinstance(node, ast.Name)
