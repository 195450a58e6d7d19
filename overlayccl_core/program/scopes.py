"""What the interpreter of the strategy language runs on: fuel, scopes, functions, the few builtins."""

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.kinds import Rejected

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

    def weigh(self, value: Any) -> None:
        """Pay for all that hangs below a value, however often it is shared: what compares or copies it sees
        every one."""
        if isinstance(value, list | tuple | range | str):
            self.spend(1 + len(value))
            if not isinstance(value, range | str):
                for item in value:
                    if isinstance(item, list | tuple | range):
                        self.weigh(item)


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


class Return(Exception):
    """A function of the source returns."""

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
            raise Rejected(
                f"the function takes {', '.join(self.names)} (got {len(arguments) + len(named)} arguments)"
            )
        if caller.depth >= MAX_DEPTH:
            raise Rejected(f"calls nest deeper than {MAX_DEPTH}: use a loop")
        scope = Scope(self.scope.fuel, self.scope, caller.depth + 1)
        scope.names.update(given, **named)
        if self.is_lambda:
            return self.body(scope)
        try:
            self.body(scope)
        except Return as done:
            return done.value
        return None


def sequence(value: Any) -> Any:
    """The value, which must have items."""
    if not isinstance(value, list | tuple | range | str):
        raise Rejected(f"{type(value).__name__} has no items: a list, tuple or range has")
    return value


def iterable(value: Any, node: ast.expr) -> Iterable[Any]:
    """The value, which must have items; an error names the line."""
    try:
        return sequence(value)  # type: ignore[no-any-return]
    except Rejected as error:
        raise error.at(node.lineno) from None


def items_of(scope: Scope, value: Any) -> list[Any]:
    """The items of a value, paid for."""
    found = sequence(value)
    scope.fuel.make(len(found))
    return list(found)


@dataclass(frozen=True, slots=True)
class Builtin:
    """One of Python's functions, on sequences that were paid for."""

    function: Callable[..., Any]

    def run(self, fuel: Fuel, *arguments: Any, **named: Any) -> Any:
        """Pay for the arguments, then call."""
        for value in arguments:
            if isinstance(value, list | tuple | range | str):
                fuel.make(len(value))
                fuel.weigh(value)
            elif not isinstance(value, int):
                raise Rejected(
                    f"{type(value).__name__} is no argument here: integers and sequences of them are"
                )
        found = self.function(*arguments, **named)
        if isinstance(found, int) and not -MAX_INTEGER < found < MAX_INTEGER:
            raise Rejected(f"{found.bit_length()} bits: integers must stay below 2^63")
        return found


def _sum_of_integers(items: Sequence[Any]) -> int:
    if not all(isinstance(item, int) for item in items):
        raise Rejected("sum adds integers (add() adds values, + joins lists)")
    return sum(items)


BUILTINS = {
    "range": Builtin(range),
    "len": Builtin(len),
    "min": Builtin(min),
    "max": Builtin(max),
    "sum": Builtin(_sum_of_integers),
    "abs": Builtin(abs),
    "all": Builtin(all),
    "any": Builtin(any),
    "divmod": Builtin(divmod),
    "list": Builtin(list),
    "tuple": Builtin(tuple),
    "sorted": Builtin(sorted),
    "reversed": Builtin(lambda items: list(reversed(items))),
    "enumerate": Builtin(lambda items, start=0: list(enumerate(items, start))),
    "zip": Builtin(lambda *items, strict=True: list(zip(*items, strict=True))),
}
