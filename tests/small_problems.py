"""Small Problems for tests: one free exchange, and a model of layers and microbatches."""

from collections.abc import Mapping

from overlayccl_core.program.case import Case, parameters
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import Program
from overlayccl_core.program.source_check import WORDS
from overlayccl_core.program.tracing import trace_source


def exchange(
    ranks: int,
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
    *,
    ranks_per_node: int | None = None,
    dtype: DType = DType.FLOAT32,
    equal: tuple[str, ...] = (),
    linear: bool = True,
    uniform: bool = False,
    **values: int,
) -> Problem:
    """One segment gives all inputs, one uses all outputs; `equal` inputs hold the same on all ranks."""

    def spec(name: str, shape: tuple[int, ...]) -> PortSpec:
        placement = Placement.REPLICATE if name in equal else Placement.VARYING
        return PortSpec(shape=shape, dtype=dtype, placement=placement)

    case = Case(
        problem="exchange",
        ranks=ranks,
        ranks_per_node=ranks_per_node or ranks,
        name="small",
        dtype=dtype,
        uniform=uniform,
        parameters=parameters(values),
    )
    return Problem(
        case=case,
        inputs={(n,): spec(n, s) for n, s in inputs.items()},
        outputs={(n,): spec(n, s) for n, s in outputs.items()},
        segments=(
            Segment(name=("give",), gives=tuple((n,) for n in inputs)),
            Segment(name=("use",), needs=tuple((n,) for n in outputs), after=(("give",),)),
        ),
        parameters={"ranks": ranks, "world_size": ranks, "ranks_per_node": case.ranks_per_node, **values},
        linear=linear,
    )


def layers(ranks: int, microbatches: int, depth: int, shape: tuple[int, ...]) -> Problem:
    """partial[m, l] -> total[m, l], summed; block (m, l) needs total[m, l - 1]."""
    each = [(m, layer) for m in range(microbatches) for layer in range(depth)]
    blocks = [
        Segment(
            name=("block", m, layer),
            needs=(("total", m, layer - 1),) if layer else (),
            gives=(("partial", m, layer),),
        )
        for m, layer in each
    ]
    losses = [Segment(name=("loss", m), needs=(("total", m, depth - 1),)) for m in range(microbatches)]
    values = {"microbatches": microbatches, "layers": depth, "shape": shape}
    partial = PortSpec(shape=shape, placement=Placement.PARTIAL, cotangent=Placement.REPLICATE)
    total = PortSpec(shape=shape, placement=Placement.REPLICATE, cotangent=Placement.REPLICATE)
    return Problem(
        case=Case(
            problem="layers", ranks=ranks, ranks_per_node=ranks, name="small", parameters=parameters(values)
        ),
        inputs={("partial", *i): partial for i in each},
        outputs={("total", *i): total for i in each},
        segments=(*blocks, *losses),
        parameters={**values, "ranks": ranks, "world_size": ranks},
    )


def strategy(body: str, words: str = "all_reduce") -> str:
    """The source of a strategy named `tried` with this body."""
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    return f"from overlayccl_core.program.language import {words}\n\n\ndef tried(io, p):\n{lines}\n"


def traced(body: str, problem: Problem) -> Program:
    """The Program of a strategy with this body, which may use every word of the language."""
    return trace_source(strategy(body, ", ".join(sorted(WORDS))), "tried", problem)
