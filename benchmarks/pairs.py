"""Twenty Programs of the library, each with the function that one would write by hand."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.by_hand import BY_HAND
from overlayccl_core import catalog
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source

RANKS = 4
ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 8, "layers": 8, "shape": [1, 64, 128], "site": "exit"},
    "uniform_a2a": {"payload": "64KiB"},
    "grad_ar": {"tensors": {"count": 40, "smallest": "1KiB", "largest": "64KiB"}},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One strategy: its Program, and the name of its function in by_hand."""

    problem: str
    strategy: str
    case: Case
    program: Program

    @property
    def name(self) -> str:
        """`tp_mlp developer`."""
        return f"{self.problem} {self.strategy}"

    def hand_written_module(self, *, yields: bool) -> str:
        """The function as a module that a worker can run in place of an emitted one.

        yields: it reads and writes ports, to be checked; else it works on inputs of its own, to be timed.
        """
        shapes = {port: spec.size for port, spec in self.program.problem.inputs.items()}
        body = _CHECKED if yields else _TIMED
        return (
            _MODULE.format(
                case=json.dumps(self.case.to_json()),
                shapes=shapes,
                problem=self.problem,
                strategy=self.strategy,
            )
            + body
        )


def pairs() -> Iterator[Pair]:
    """All of them, at shapes of the default configuration; two tiers of two ranks for the hierarchical ones."""
    for problem, functions in BY_HAND.items():
        source = catalog.library_source(problem)
        for strategy in functions:
            per_node = 2 if "hierarchical" in strategy else RANKS
            case = catalog.case(problem, ENTRIES[problem], ranks=RANKS, ranks_per_node=per_node)
            program = trace_source(source, strategy, catalog.build(case))
            yield Pair(problem=problem, strategy=strategy, case=case, program=program)


_MODULE = """
import json

import torch
import torch.distributed as dist

from benchmarks import by_hand
from overlayccl_core.program.case import Case

CASE = Case.from_json(json.loads({case!r}))
SIZES = {shapes!r}
FUNCTION = by_hand.BY_HAND[{problem!r}][{strategy!r}]


class Read:
    def __init__(self, *port):
        self.port = port


class Write:
    def __init__(self, port, value):
        self.port, self.value = port, value


def connect(members=None, new_group=None, on="cpu"):
    global at, inputs
    at = by_hand.connect(CASE, dist.get_rank(), new_group)
    inputs = {{port: torch.randn(size) for port, size in SIZES.items()}}
"""
_TIMED = """

def forward():
    FUNCTION(inputs, at)
    return iter(())
"""
_CHECKED = """

def forward():
    held = {}
    for port in SIZES:
        held[port] = yield Read(*port)
    for port, value in FUNCTION(held, at).items():
        yield Write(port, value)
"""
