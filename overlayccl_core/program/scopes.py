"""Runtime of the strategy language's interpreter: fuel, scopes, functions, the few builtins."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.operators import INTEGER_BITS, is_small, kind_of
from overlayccl_core.program.recorder import Value
from overlayccl_core.program.source_check import levels, size

MAX_STEPS = 4_000_000
MAX_ITEMS = 4_000_000  # made in lists, tuples and texts, in all
MAX_NESTING = 250  # levels of syntax of all functions on the call stack: the interpreter recurses by them
MAX_NESTED_LISTS = 32
STEPS_PER_OPERATION, STEPS_PER_COMPARISON = 2, 3  # a step is about one round of a loop
STEPS_PER_CALL = 8  # of a function of the source: it takes about as long as so many operations
PIECES_PER_STEP = 16  # of syntax in the body of a loop or function: a long body costs more than a short one

Compiled = Callable[["Scope"], Any]


class Fuel:
    """The budget of a source: steps and made items."""

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

    def weigh(self, value: Any, level: int = 1) -> None:
        """Pay for everything below a value, however often shared: comparing or copying it sees every one.

        Raises:
            Rejected: Its lists nest too deeply.
        """
        if isinstance(value, list | tuple | range | str):
            if level > MAX_NESTED_LISTS:
                raise Rejected(f"lists nest deeper than {MAX_NESTED_LISTS}: join them with +")
            self.spend(1 + len(value))
            if not isinstance(value, range | str):
                for item in value:
                    if isinstance(item, list | tuple | range):
                        self.weigh(item, level + 1)


class Scope:
    """Names of one call or comprehension.

    Attributes:
        nesting: Levels of syntax of the functions on the call stack.
        file: File of ways containing the lines; empty for the traced source.
    """

    __slots__ = ("file", "fuel", "names", "nesting", "parent")

    def __init__(self, fuel: Fuel, parent: "Scope | None", nesting: int, file: str = "") -> None:
        self.file: str = parent.file if parent else file
        self.fuel = fuel
        self.names: dict[str, Any] = {}
        self.parent = parent
        self.nesting = nesting

    def find(self, name: str) -> Any:
        """The value of a name; Rejected if unknown."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        raise Rejected(f"unknown name {name!r}: {_INSTEAD_OF.get(name, _IMPORT)}")


_IMPORT = "import it from overlayccl_core.program.language, or define it"
_INSTEAD_OF = {
    "print": "a strategy prints nothing, `overlayccl trace` shows what it does",
    **dict.fromkeys(("dict", "set", "frozenset"), "use lists and tuples"),
    **dict.fromkeys(("map", "filter"), "use a comprehension"),
    **dict.fromkeys(("iter", "next"), "use for, or an index"),
    **dict.fromkeys(("float", "round"), "numbers are integers, a ratio is scale(x, 1, n)"),
    "pow": "write a ** b",
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """A strategy's `p`."""

    values: dict[str, Any]

    def get(self, name: str) -> Any:
        """One parameter; Rejected, naming the known ones, if unknown."""
        if name not in self.values:
            raise Rejected(f"no parameter p.{name}: there are {', '.join(sorted(self.values))}")
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Ways:
    """A file of ways, as a strategy sees it by its name."""

    name: str
    functions: dict[str, "Function"]

    def get(self, name: str) -> "Function":
        """One of its ways; Rejected, naming the known ones, if unknown."""
        if name not in self.functions:
            raise Rejected(f"no way {self.name}.{name}: there are {', '.join(sorted(self.functions))}")
        return self.functions[name]


class Return(Exception):
    """A function of the source returns."""

    def __init__(self, value: Any) -> None:
        self.value = value


def steps_of(*nodes: ast.AST) -> int:
    """Steps of fuel for running these nodes once, besides the steps they spend themselves."""
    return size(*nodes) // PIECES_PER_STEP


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled function of the source: compiled once, however often it is defined."""

    names: tuple[str, ...]
    body: Compiled
    is_lambda: bool
    levels: int
    steps: int

    @classmethod
    def of(cls, node: ast.FunctionDef | ast.Lambda, body: Compiled) -> "Code":
        """The code of a checked function."""
        names = tuple(a.arg for a in node.args.args)
        steps = STEPS_PER_CALL + steps_of(node)
        return cls(names, body, isinstance(node, ast.Lambda), levels(node), steps)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the source, with its defining scope."""

    code: Code
    scope: Scope

    def call(self, arguments: Sequence[Any], named: dict[str, Any], caller: Scope) -> Any:
        """Bind the arguments and run the body."""
        caller.fuel.spend(self.code.steps)
        names = self.code.names
        given = dict(zip(names, arguments, strict=False))
        if len(arguments) > len(names) or set(given) & set(named) or {*given, *named} != set(names):
            raise Rejected(
                f"the function takes {', '.join(names)} (got {len(arguments) + len(named)} arguments)"
            )
        nested = caller.nesting + self.code.levels
        if nested > MAX_NESTING:
            raise Rejected(f"calls nest deeper than {MAX_NESTING} levels of syntax in all: use a loop")
        scope = Scope(self.scope.fuel, self.scope, nested)
        scope.names.update(given, **named)
        try:
            value = self.code.body(scope)
            return value if self.code.is_lambda else None
        except Return as done:
            return done.value
        except Rejected as error:
            if scope.file == caller.file or error.line is None:
                raise
            raise Rejected(f"{scope.file}, line {error.line}: {error.args[0]}") from error


def sequence(value: Any) -> Any:
    """The value, if it has items; else Rejected."""
    if isinstance(value, list | tuple | range | str):
        return value
    if isinstance(value, Value):
        raise Rejected("a value has no items: slice_axis, index_select and split take it apart")
    raise Rejected(f"{kind_of(value)} has no items: a list, tuple or range has")


def items_of(scope: Scope, value: Any) -> list[Any]:
    """The items of a value, paid for."""
    items = sequence(value)
    scope.fuel.make(len(items))
    return list(items)


@dataclass(frozen=True, slots=True)
class Builtin:
    """One of Python's functions, on integers and on paid sequences."""

    function: Callable[..., Any]

    def run(self, caller: Scope, *arguments: Any, **named: Any) -> Any:
        """Pay for the arguments, then call."""
        given = {name: value for name, value in named.items() if name != "key"}
        for value in (*arguments, *given.values()):
            if isinstance(value, list | tuple | range | str):
                caller.fuel.make(len(value))
                caller.fuel.weigh(value)
            elif not isinstance(value, int):
                raise Rejected(f"{kind_of(value)} is no argument here: integers and sequences of them are")
        if "key" in named:
            given["key"] = _key(named["key"], caller)
        result = self.function(*arguments, **given)
        if isinstance(result, int) and not is_small(result):
            raise Rejected(f"{result.bit_length()} bits: integers must stay below 2^{INTEGER_BITS}")
        return result


def _key(function: Any, caller: Scope) -> Callable[[Any], Any]:
    """The key function of sorted, min and max; pay for each call and for everything compared."""
    if not isinstance(function, Function | Builtin):
        raise Rejected(f"key must be a function (got {kind_of(function)}): lambda r: ... is one")

    def run(item: Any) -> Any:
        caller.fuel.spend()
        result = (
            function.call([item], {}, caller)
            if isinstance(function, Function)
            else function.run(caller, item)
        )
        caller.fuel.weigh(result)
        return result

    return run


def _sum_of_integers(items: Sequence[Any], start: int = 0) -> int:
    if not all(isinstance(item, int) for item in (*items, start)):
        raise Rejected("sum adds integers (add() adds values, + joins lists)")
    total: int = sum(items, start)
    return total


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise Rejected(f"int takes an integer or a comparison (got {kind_of(value)})")
    return int(value)


BUILTINS = {
    "range": Builtin(range),
    "len": Builtin(len),
    "min": Builtin(min),
    "max": Builtin(max),
    "sum": Builtin(_sum_of_integers),
    "abs": Builtin(abs),
    "int": Builtin(_integer),
    "bool": Builtin(bool),
    "all": Builtin(all),
    "any": Builtin(any),
    "divmod": Builtin(divmod),
    "list": Builtin(list),
    "tuple": Builtin(tuple),
    "sorted": Builtin(sorted),
    "reversed": Builtin(lambda items: list(reversed(items))),
    "enumerate": Builtin(lambda items, start=0: list(enumerate(items, start))),
    "zip": Builtin(lambda *items, strict=True: list(zip(*items, strict=strict))),
}
