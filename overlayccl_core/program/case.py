"""A Case: one instance of a Problem, with a readable id."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from overlayccl_core.program.kinds import FLOATS, DType

ParameterValue = int | str | tuple[int, ...]

DIGEST_BYTES = 3  # for the few Cases that share a readable name
PROXY_NODE = 4  # ranks: with two, rotation, exchange and swap would be the same
PROXY_NODES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A Problem's parameters at a world size.

    Attributes:
        uniform: Ranks compile what they run, one graph for all; they differ in the contents of tables only. Not
            part of the id: a deployment has one kind.
    """

    problem: str
    ranks: int  # N of the Problem
    ranks_per_node: int  # ranks of ONE group on a node; equal to `ranks`: one tier
    dtype: DType = DType.FLOAT32
    groups: int = 1  # groups of ranks at once; ranks * groups is the deployment's world size
    strided: bool = False  # the ranks of a group are a stride apart, not contiguous
    uniform: bool = False
    name: str  # the part of the id written by the Problem (`m8-l8-32KiB`); it need not tell all parameters
    parameters: tuple[tuple[str, ParameterValue], ...]

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ValueError(
                f"a Case needs at least 2 ranks (got {self.ranks}): there is nothing to exchange"
            )
        if self.dtype not in FLOATS:
            raise ValueError(
                f"dtype must be one of {[d.value for d in FLOATS]} (got {self.dtype.value!r}): integers are ids"
            )
        if self.groups < 1:
            raise ValueError(f"a Case needs at least 1 group (got {self.groups})")
        if not 1 <= self.ranks_per_node <= self.ranks or self.ranks % self.ranks_per_node:
            raise ValueError(
                f"ranks_per_node must divide ranks (got {self.ranks_per_node} and {self.ranks}): "
                f"use {self.ranks} for one tier"
            )
        if tuple(sorted(self.parameters)) != self.parameters:
            raise ValueError("parameters of a Case must be sorted by name")

    @property
    def id(self) -> str:
        """`tp_mlp/n4-m8-l8-32KiB-f32`; `n32x7`: 7 groups of 32 (`s7`: strided); `n224-r32`: 32 ranks a node."""
        size = f"n{self.ranks}"
        if self.groups > 1:
            size += f"{'s' if self.strided else 'x'}{self.groups}"
        if self.ranks_per_node != self.ranks:
            size += f"-r{self.ranks_per_node}"
        return f"{self.problem}/{size}-{self.name}-{self.dtype.short}"

    def told_apart(self) -> "Case":
        """The same Case with a digest of its contents in its name: `m8-l8-32KiB-5f0c3a`."""
        told = json.dumps({**self.to_json(), "name": ""}, sort_keys=True).encode()
        digest = hashlib.blake2b(told, digest_size=DIGEST_BYTES).hexdigest()
        return replace(self, name=f"{self.name}-{digest}")

    def __getitem__(self, name: str) -> Any:
        """One parameter by name."""
        return dict(self.parameters)[name]

    @property
    def stride(self) -> int:
        """Distance between neighbouring ranks of a group, among the deployment's ranks."""
        return self.groups if self.strided else 1

    def members(self) -> tuple[tuple[int, ...], ...]:
        """The deployment's ranks of every group, in the order of the Problem's ranks."""
        if self.strided:
            return tuple(tuple(range(g, self.ranks * self.groups, self.groups)) for g in range(self.groups))
        return tuple(tuple(range(g * self.ranks, (g + 1) * self.ranks)) for g in range(self.groups))

    def to_json(self) -> dict[str, Any]:
        """Plain data for `from_json`."""
        return {
            "problem": self.problem,
            "ranks": self.ranks,
            "ranks_per_node": self.ranks_per_node,
            "dtype": self.dtype.value,
            "groups": self.groups,
            "strided": self.strided,
            "name": self.name,
            "parameters": {k: list(v) if isinstance(v, tuple) else v for k, v in self.parameters},
            **({"uniform": True} if self.uniform else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Case":
        """The Case written by `to_json`."""
        return cls(**{**data, "dtype": DType(data["dtype"]), "parameters": parameters(data["parameters"])})


def problem_of(case_id: str) -> str:
    """`tp_mlp` of `tp_mlp/n4-m8-l8-32KiB-f32`."""
    return case_id.partition("/")[0]


def fewer_ranks(case: Case) -> dict[str, Any]:
    """Ranks, tiers, groups and dtype of a small stand-in for a Case, as `catalog.case` takes them.

    Every tier stays, with at most PROXY_NODE ranks on a node and PROXY_NODES nodes (PROXY_NODE nodes if a node has
    one rank).
    """
    nodes = case.ranks // case.ranks_per_node
    each = min(case.ranks_per_node, PROXY_NODE)
    fewer = min(nodes, PROXY_NODES if case.ranks_per_node > 1 else PROXY_NODE)
    return {
        "ranks": each * fewer,
        "ranks_per_node": each,
        "groups": case.groups,
        "strided": case.strided,
        "uniform": case.uniform,
        "dtype": case.dtype.value,
    }


def parameters(values: Mapping[str, Any]) -> tuple[tuple[str, ParameterValue], ...]:
    """A mapping as the sorted tuple of a Case."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list | tuple) else v) for k, v in values.items()))


def divisible(extent: int, ranks: int) -> int:
    """The least multiple of `ranks` that is no less than `extent`."""
    return -(-extent // ranks) * ranks


BUS_FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), lambda n: (n - 1) / n),
    **dict.fromkeys(("broadcast", "reduce", "send", "recv"), lambda n: 1.0),
}
"""Operation -> busbw / algbw in a group of n ranks, by nccl-tests (doc/PERFORMANCE.md)."""


def all_reduce_factor(case: Case) -> float:
    """busbw / algbw of an all_reduce."""
    return BUS_FACTORS["all_reduce"](case.ranks)


def one_way_factor(case: Case) -> float:
    """That of an all_gather, a reduce_scatter or an all_to_all."""
    return BUS_FACTORS["all_gather"](case.ranks)


def count(shape: tuple[int, ...]) -> int:
    """Elements of a shape."""
    return prod(shape)
