"""What a captured call is, in the words of whoever wrote the script."""

from collections.abc import Mapping
from typing import Any

PARAMETERS_SHOWN = 2
SUMS = {"layer_block_ar": "tensor-parallel sum", "grad_ar": "sum that no call needs, as of gradients"}
"""Problem -> a sum that the script itself asks for."""
OF_PART = {
    ("FSDP", "all_gather"): "FSDP gather of {module}",
    ("FSDP", "reduce_scatter"): "FSDP gradients of {module}",
    ("FSDP", "all_reduce"): "FSDP gradients of {module}, over replicas",
    ("DDP", "broadcast"): "DDP buffers of {root}",
    ("DTensor", "all_reduce"): "DTensor sum",
    ("DTensor", "all_gather"): "DTensor gather",
    ("DTensor", "reduce_scatter"): "DTensor sum, in shards",
    ("DTensor", "all_to_all"): "DTensor change of shards",
    ("pipeline", "send"): "pipeline send to {peer}",
    ("pipeline", "recv"): "pipeline receive from {peer}",
    ("ZeRO", "broadcast"): "ZeRO parameters of {root}",
    ("backward", "all_reduce"): "DDP bucket",
    ("", "broadcast"): "broadcast of {root}",
    ("", "all_gather"): "gather",
    ("", "reduce_scatter"): "sum, in shards",
    ("", "send"): "send to {peer}",
    ("", "recv"): "receive from {peer}",
}
"""(part, kind) of a call -> what it is; `{...}` stand for its module, and for ranks of its group."""


def meaning(call: Mapping[str, Any], problem: str | None) -> str:
    """Return what a call is.

    Args:
        call: A row of `captured_calls`.
        problem: The Problem that it is a part of (`fits.py`); None: of none, or the source does not tell.
    """
    if call["parameters"]:
        return f"DDP bucket: {_shortened(call['parameters'])}"
    part, _, module = call["part"].partition(" ")
    known = OF_PART.get((part, call["kind"]))
    if known:
        ranks = {one: "a rank" if call[one] is None else f"rank {call[one]}" for one in ("root", "peer")}
        return known.format(module=module or "the root module", **ranks)
    if part:
        return f"{part} {call['kind']}"
    if call["kind"] == "all_to_all":
        return "exchange of counts" if "int" in call["dtype"] else "exchange of rows, as of experts"
    if call["kind"] != "all_reduce":
        return str(call["kind"])
    if all(set(shape.split("x")) <= {"", "1"} for shape in call["shapes"]):
        return "one number, as a loss or a norm"
    if call["reduction"] not in ("sum", "avg"):
        return call["reduction"] or "reduction"
    return SUMS.get(problem or "", "sum")


def _shortened(names: list[str]) -> str:
    if len(names) <= PARAMETERS_SHOWN:
        return ", ".join(names)
    return f"{names[0]} .. {names[-1]} ({len(names)})"
