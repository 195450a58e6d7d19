"""What to write instead of Python that is not in the strategy language, in the author's words."""

import ast
import re

_OPERATORS: dict[type[ast.AST], str] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Invert: "~",
}
_ADVICE: dict[type[ast.AST], tuple[str, str]] = {
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
    **{kind: (sign, "use +, -, *, //, % and **") for kind, sign in _OPERATORS.items()},
}


def not_in_language(kind: type[ast.AST]) -> str:
    """One sentence about a construct that is refused, with the mend where there is one."""
    if kind in _ADVICE:
        construct, mend = _ADVICE[kind]
        return f"{construct} is not in the language: {mend}"
    construct = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower().replace("_", " ")
    return f"this construct ({construct}) is not in the language: see docs/strategies.md"
