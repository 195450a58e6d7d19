"""The methods of torch's process group that communicate: what each does, and where its tensors stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Method:
    """How a method of `ProcessGroup` is called.

    Attributes:
        kind: The collective, by its usual name.
        outputs: Position of the tensors that it writes, or None.
        inputs: Position of the tensors that it reads, or None. Where it is that of the outputs, it works in place.
        options: Position of its options (reduction, root), or None.
    """

    kind: str
    outputs: int | None = 0
    inputs: int | None = 1
    options: int | None = 2


IN_PLACE = {"inputs": 0, "options": 1}
METHODS = {
    "allreduce": Method("all_reduce", **IN_PLACE),
    "allreduce_coalesced": Method("all_reduce", **IN_PLACE),
    "broadcast": Method("broadcast", **IN_PLACE),
    "reduce": Method("reduce", **IN_PLACE),
    "allgather": Method("all_gather"),
    "allgather_coalesced": Method("all_gather"),
    "_allgather_base": Method("all_gather"),
    "all_gather_single": Method("all_gather"),
    "all_gather_single_coalesced": Method("all_gather"),
    "allgather_into_tensor_coalesced": Method("all_gather"),
    "reduce_scatter": Method("reduce_scatter"),
    "_reduce_scatter_base": Method("reduce_scatter"),
    "reduce_scatter_single": Method("reduce_scatter"),
    "reduce_scatter_single_coalesced": Method("reduce_scatter"),
    "reduce_scatter_tensor_coalesced": Method("reduce_scatter"),
    "alltoall": Method("all_to_all"),
    "alltoall_base": Method("all_to_all", options=4),
    "all_to_all_single": Method("all_to_all", options=4),
    "gather": Method("gather"),
    "scatter": Method("scatter"),
    "send": Method("send", outputs=None, inputs=0, options=None),
    "recv": Method("recv", inputs=None, options=None),
    "recv_anysource": Method("recv", inputs=None, options=None),
    "barrier": Method("barrier", outputs=None, inputs=None, options=0),
    "monitored_barrier": Method("barrier", outputs=None, inputs=None, options=None),
}
"""method -> how it is called. What torch adds later goes to the library unseen, until it has a row here."""
BESIDE = {"send", "recv", "recv_anysource"}
"""Methods that a library keeps apart from collectives: a rank may wait in one for what comes after another's."""


def argument(args: tuple[Any, ...], position: int | None) -> Any:
    """Return the argument at a position; None if there is none."""
    return args[position] if position is not None and position < len(args) else None


def tensors(argument: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of an argument: a tensor, a list of them, or a list of lists."""
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for one in argument:
            yield from tensors(one)
