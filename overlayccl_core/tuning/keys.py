"""Which call of a script a Case with one call stands for: its key on the ranks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from overlayccl_core.observing.regions import KINDS
from overlayccl_core.problems.captured import calls_of
from overlayccl_core.process_group.parts import Key
from overlayccl_core.program.case import Case

OF_KIND = {name: call for call, name in KINDS.items()}


class MadeCall(NamedTuple):
    """A call of a Case. after: earlier calls of the Case that it is made from."""

    key: Key
    after: tuple[int, ...]


def key_of(case: Case) -> Key:
    """Return the key of the call of a Case with one."""
    placed = {"dtype": case.dtype.value, "ranks": case.ranks}
    [call] = calls_of(case)
    made = made_call(call, placed, case.groups if case.strided else 1)
    return made.key._replace(hosts=case.ranks // case.ranks_per_node)


def made_call(call: Mapping[str, Any], placed: Mapping[str, Any], stride: int) -> MadeCall:
    """Return a described call as the ranks see it. placed: its dtype and the ranks of its group."""
    kind, reduction = OF_KIND[call["kind"]]
    key = Key(kind, reduction, placed["dtype"], call["elements"], placed["ranks"], stride)
    return MadeCall(key, tuple(call.get("after", ())))
