"""Planted mistakes, a line of mutants.txt each: a side condition left out, as an edit of a function."""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.rules import swaps

TABLE = Path(__file__).with_name("mutants.txt").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in the source of `function` of a module; "": of the rule's file."""

    rule: str
    module: str
    condition: str
    function: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """How the test is called."""
        return f"{self.rule}: {self.condition}"

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function wherever the right one is."""
        files = {name: rules_.rule(name) for name in rules_.rule_names()}  # all have bound what is right
        own = swaps if self.rule in swaps.SWAPS else files[self.rule]
        home = import_module(f"overlayccl_core.{self.module}") if self.module else own
        right = getattr(home, self.function)
        source = textwrap.dedent(inspect.getsource(right.build if isinstance(right, swaps.Swap) else right))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} must stand once in {home.__name__}.{self.function}")
        space: dict[str, Any] = {}
        exec(compile(source.replace(self.old, self.new), "<mutant>", "exec"), vars(home), space)
        wrong = space[self.function]
        if isinstance(right, swaps.Swap):
            patch.setattr(right, "build", wrong.build)
            patch.setattr(right, "where", wrong.where)
        for swap in swaps.SWAPS.values():
            if swap.where is right:
                patch.setattr(swap, "where", wrong)
        for name, module in list(sys.modules.items()):
            if name.startswith("overlayccl_core") and vars(module).get(self.function) is right:
                patch.setattr(module, self.function, wrong)


def _mutants(table: str) -> Iterator[Mutant]:
    for block in re.sub(r"^#.*\n", "", table, flags=re.MULTILINE).strip().split("\n\n"):
        head, *rows = re.split(r"\n  ", block)
        rules, _, module = " ".join(head.split()).partition(" in ")
        for row in rows:
            condition, function, edit = row.split(" | ", 2)
            old, _, new = edit.partition(" =>")
            for rule in rules.split(", "):
                yield Mutant(
                    rule=rule, module=module, condition=condition, function=function, old=old, new=new.strip()
                )


MUTANTS = tuple(_mutants(TABLE))
