"""A planted mistake: one side condition of a rule left out, as an edit of the function that holds it."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import pytest

from overlayccl_core.rewrites import rule as rules_


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in the source of `function` of the rule's file, or of `module`."""

    rule: str
    condition: str
    function: str
    old: str
    new: str
    module: ModuleType | None = None

    @property
    def name(self) -> str:
        """How the test is called."""
        return f"{self.rule}: {self.condition}"

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function wherever the right one is."""
        files = {name: rules_.rule(name) for name in rules_.rule_names()}  # all have bound what is right
        home = self.module or cast(ModuleType, files[self.rule])
        right = getattr(home, self.function)
        source = textwrap.dedent(inspect.getsource(right))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} must stand once in {home.__name__}.{self.function}")
        space: dict[str, Callable[..., object]] = {}
        exec(compile(source.replace(self.old, self.new), "<mutant>", "exec"), vars(home), space)
        for name, module in list(sys.modules.items()):
            if name.startswith("overlayccl_core") and vars(module).get(self.function) is right:
                patch.setattr(module, self.function, space[self.function])


def mutants_of(
    rule_name: str, *rows: tuple[str, str, str, str], module: ModuleType | None = None
) -> tuple[Mutant, ...]:
    """rows: condition, function, old, new."""
    return tuple(
        Mutant(rule=rule_name, condition=condition, function=function, old=old, new=new, module=module)
        for condition, function, old, new in rows
    )


NO_LABEL = "type(x.label)()"
LOST_LABEL = ("the label stays", "like", "x.label)", f"{NO_LABEL})")
