"""The Python allowed in a strategy's source: every syntax node is checked against an allow-list first."""

import ast
import re

from overlayccl_core.program import language
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.operators import BINARY, UNARY

LANGUAGE_MODULE = "overlayccl_core.program.language"
_WORDS_OF = (LANGUAGE_MODULE, "overlayccl_core.program.chunks", "overlayccl_core.program.heads")
WAYS_MODULE = "overlayccl_core.strategies.ways"
LIBRARIES = ("LIBRARY", "BACKWARD")
DERIVED = "DERIVED"  # of a file of ways: pairs (another file, function making ways of this kind of its ways)
MAX_SOURCE_BYTES = 256 * 1024
MAX_LEVELS = 100  # of nested syntax: walks of the tree recurse by them

WORDS = frozenset(
    name
    for name, value in vars(language).items()
    if callable(value) and getattr(value, "__module__", "") in _WORDS_OF and not name.startswith("_")
)

_ALLOWED: frozenset[type[ast.AST]] = frozenset(
    {
        *(ast.Module, ast.ImportFrom, ast.alias, ast.FunctionDef, ast.arguments, ast.arg, ast.Lambda),
        *(ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.For, ast.If, ast.Pass),
        *(ast.Constant, ast.Name, ast.Load, ast.Store, ast.Tuple, ast.List, ast.ListComp, ast.GeneratorExp),
        *(ast.comprehension, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare),
        *(ast.IfExp, ast.Subscript, ast.Slice, ast.Attribute, ast.Not, ast.And, ast.Or),
        *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
        *BINARY,
        *UNARY,
    }
)
_LEAVES = frozenset({ast.Load, ast.Store, *BINARY, *UNARY})  # without fields and rules of their own


def check_tree(source: str) -> ast.Module:
    """Parse a source and check its syntax.

    Raises:
        Rejected: With the line of the first construct outside the language.
    """
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
    todo: list[tuple[ast.AST, int, int]] = [(tree, 1, 0)]
    while todo:
        node, line, level = todo.pop()
        line = getattr(node, "lineno", line)
        if level > MAX_LEVELS:
            raise Rejected(f"more than {MAX_LEVELS} levels of syntax: give parts of it names").at(line)
        _check(node, line)
        todo.extend((child, line, level + 1) for child in _children(node) if type(child) not in _LEAVES)
    return tree


def levels(node: ast.AST) -> int:
    """Levels of syntax from a node of a checked tree down; a comprehension has one more for each loop."""
    own = 1 + len(node.generators) if isinstance(node, ast.ListComp | ast.GeneratorExp) else 1
    return own + max((levels(child) for child in _children(node) if type(child) not in _LEAVES), default=0)


def size(*nodes: ast.AST) -> int:
    """Pieces of syntax in nodes of a checked tree."""
    return len(nodes) + sum(size(c) for n in nodes for c in _children(n) if type(c) not in _LEAVES)


def function_at(source: str, line: int) -> str | None:
    """The top-level function around a line; None outside of one, or if the source does not parse."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    around = (s for s in body if isinstance(s, ast.FunctionDef) and s.lineno <= line <= (s.end_lineno or 0))
    return next((function.name for function in around), None)


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below; ast.iter_child_nodes, without its generators."""
    children: list[ast.AST] = []
    for name in node._fields:
        below = getattr(node, name, None)
        if isinstance(below, ast.AST):
            children.append(below)
        elif isinstance(below, list):
            children.extend(child for child in below if isinstance(child, ast.AST))
    return children


def _check_top(statement: ast.stmt) -> None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.FunctionDef():
            return
        case ast.ImportFrom(module=module, level=0) if module == LANGUAGE_MODULE:
            unknown = [a.name for a in statement.names if a.name not in WORDS]
            if unknown:
                words = ", ".join(sorted(WORDS))
                raise Rejected(f"the language has no {unknown[0]!r}: it has {words}").at(statement.lineno)
        case ast.ImportFrom(module=module, level=0) if module == WAYS_MODULE:
            return
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="Library"))) if (
            name in LIBRARIES
        ):
            return
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple()) if name == DERIVED:
            return
        case ast.Assign(targets=[ast.Name()], value=value) if _is_constant(value):
            return
        case ast.Import() | ast.ImportFrom():
            raise Rejected(
                f"the only import is: from {LANGUAGE_MODULE} import ..., or from {WAYS_MODULE} import ..."
            ).at(statement.lineno)
        case _:
            raise Rejected(
                "a file of strategies holds a docstring, imports, integer constants, functions and LIBRARY"
            ).at(statement.lineno)


def _is_constant(value: ast.expr) -> bool:
    """True for arithmetic of literal integers: 25 * 2**20."""
    match value:
        case ast.Constant(value=int()):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_constant(operand)
        case ast.BinOp(left=left, right=right):
            return _is_constant(left) and _is_constant(right)
        case _:
            return False


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
    """Check the kinds of node allowed in some forms only."""
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
            raise Rejected(
                "only names (or tuples of names) can be assigned to: build lists with + or a comprehension"
            ).at(line)
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


# Python outside the language: (construct, mend).
ADVICE: dict[type[ast.AST], tuple[str, str]] = {
    ast.Div: ("/", "use scale(x, 1, n), or // for integers"),
    ast.MatMult: ("@", "a strategy moves and adds data, it does not multiply it"),
    ast.UAdd: ("unary +", "leave it out"),
    ast.While: ("while", "use for ... in range(...), which ends"),
    ast.Break: ("break", "loop over fewer things, or use if"),
    ast.Continue: ("continue", "use if"),
    ast.Try: ("try", "say not_applicable('why') where a strategy has no meaning"),
    ast.TryStar: ("try", "say not_applicable('why') where a strategy has no meaning"),
    ast.Raise: ("raise", "say not_applicable('why') where a strategy has no meaning"),
    ast.Assert: ("assert", "say not_applicable('why') where a strategy has no meaning"),
    ast.Import: ("import inside a function", "import words of the language at the top of the file"),
    ast.Dict: ("a dictionary", "use lists and tuples"),
    ast.DictComp: ("a dictionary", "use lists and tuples"),
    ast.Set: ("a set", "use lists and tuples"),
    ast.SetComp: ("a set", "use lists and tuples"),
    ast.Starred: ("* before a value", "write the items out, or add lists with +"),
    ast.JoinedStr: ("an f-string", "write the text out: strategies print nothing"),
    ast.With: ("with", "leave it out: a strategy opens nothing"),
    ast.ClassDef: ("class", "use functions, lists and tuples"),
    ast.Delete: ("del", "leave it out"),
    ast.Global: ("global", "pass values as arguments and return them"),
    ast.Nonlocal: ("nonlocal", "pass values as arguments and return them"),
    ast.Yield: ("yield", "build a list and return it"),
    ast.YieldFrom: ("yield", "build a list and return it"),
    ast.NamedExpr: (":=", "assign in a line of its own"),
    ast.AnnAssign: ("an annotated assignment", "assign without the type"),
    ast.Match: ("match", "use if and elif"),
}


def not_in_language(kind: type[ast.AST]) -> str:
    """One sentence about a refused construct, with the mend if there is one."""
    if kind in ADVICE:
        construct, mend = ADVICE[kind]
        return f"{construct} is not in the language: {mend}"
    construct = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower().replace("_", " ")
    return f"this construct ({construct}) is not in the language: see docs/strategies.md"
