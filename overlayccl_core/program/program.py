"""The Program: events in the order of its own schedule over interned nodes."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from overlayccl_core.program.calls import Call, call_key
from overlayccl_core.program.kinds import IssueOrder, Kind, Rejected
from overlayccl_core.program.nodes import Node, Outputs, Port, topological
from overlayccl_core.program.problem import Problem, no_such, port_text
from overlayccl_core.program.substitution import without_labels


@dataclass(frozen=True, slots=True)
class Read:
    """An input becomes a value."""

    port: Port


@dataclass(frozen=True, slots=True)
class Issue:
    """A call starts, of one or several collectives."""

    call: Call


@dataclass(frozen=True, slots=True)
class Write:
    """A value becomes an output."""

    port: Port
    node: Node


@dataclass(frozen=True, slots=True)
class Boundary:
    """One compiled graph ends and the next begins."""


Event = Read | Issue | Write | Boundary
BOUNDARY = Boundary()


@dataclass(frozen=True, eq=False)
class Program:
    """A strategy at one Case, checked.

    Each input is read at most once, before anything computed from it is issued or written. Each call is issued
    once, before anything computed from it, and none of its collectives is computed from another of them. Each
    output is written exactly once, in the declared size and dtype.

    `facts` holds memoised analyses (steps, prices). Two Programs are the same if their digests are.
    """

    problem: Problem
    events: tuple[Event, ...]
    outputs: Outputs = field(init=False, repr=False)
    facts: dict[str, Any] = field(init=False, repr=False)

    def __init__(self, problem: Problem, events: Iterable[Event]) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "events", tuple(events))
        object.__setattr__(self, "facts", {})
        object.__setattr__(self, "outputs", _checked_outputs(problem, self.events))

    @cached_property
    def nodes(self) -> list[Node]:
        """Every node below an output or an issued collective, operands first, in order of first use."""
        return topological(x for e in self.events for x in _roots(e))

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in order of issue."""
        return [e.call for e in self.events if isinstance(e, Issue)]

    @cached_property
    def collectives(self) -> list[Node]:
        """The collectives in order of issue."""
        return [x for call in self.calls for x in call]

    @cached_property
    def starts_early(self) -> bool:
        """True if a collective starts before all inputs are read."""
        kinds = [type(event) for event in self.events]
        return Issue in kinds and Read in kinds[kinds.index(Issue) :]

    @cached_property
    def digest(self) -> str:
        """Identity with the schedule; proofs, prices and stamps refer to it."""
        return self._digest_of_events(lambda x: x.digest)

    @cached_property
    def run_digest(self) -> str:
        """Identity of what runs: the events without labels, so of twins that only their labels tell apart."""
        roots = dict.fromkeys(x for e in self.events for x in _roots(e))
        bare = without_labels({(i,): x for i, x in enumerate(roots)}).values()
        digests = {x: y.digest + self._lets_work(x) for x, y in zip(roots, bare, strict=True)}
        return self._digest_of_events(digests.__getitem__)

    def _lets_work(self, x: Node) -> bytes:
        """Left-over work of the model is done before a wait, by the label of the call."""
        lets = self.problem.leaves_work and x.is_collective and x.label.issue is not IssueOrder.AS_WRITTEN
        return b"meanwhile" if lets else b""

    def _digest_of_events(self, digest: Callable[[Node], bytes]) -> str:
        h = hashlib.blake2b(self._contract, digest_size=12)
        for event in self.events:
            match event:
                case Read(port):
                    h.update(b"r" + repr(port).encode())
                case Issue(call):
                    h.update(b"i" + b"".join(map(digest, call)))
                case Write(port, node):
                    h.update(b"w" + repr(port).encode() + digest(node))
                case Boundary():
                    h.update(b"b")
        return h.hexdigest()

    @cached_property
    def value_digest(self) -> str:
        """Identity without the schedule: outputs, nodes and labels."""
        h = hashlib.blake2b(self._contract, digest_size=12)
        for port in sorted(self.outputs, key=repr):
            h.update(repr(port).encode() + self.outputs[port].digest)
        return h.hexdigest()

    @property
    def _contract(self) -> bytes:
        """The Program's Case and direction."""
        return f"{self.problem.case.id};{self.problem.direction.value};".encode()

    def users(self) -> dict[Node, list[Node]]:
        """node -> the nodes reading it."""
        users: dict[Node, list[Node]] = {x: [] for x in self.nodes}
        for x in self.nodes:
            for y in dict.fromkeys(x.operands):
                users[y].append(x)
        return users


def _roots(event: Event) -> Call:
    """The nodes of an event."""
    match event:
        case Issue(call):
            return call
        case Write(_, node):
            return (node,)
        case _:
            return ()


def _checked_outputs(problem: Problem, events: tuple[Event, ...]) -> Outputs:
    read: set[Port] = set()
    known: set[Node] = set()
    issued: set[object] = set()
    outputs: Outputs = {}
    for event in events:
        match event:
            case Read(port):
                if port not in problem.inputs:
                    raise no_such("input", port, problem.inputs)
                if port in read:
                    raise Rejected(f"{port_text(port)} is read twice: keep the value of the first read")
                read.add(port)
            case Issue(call):
                _check_issued(call, read, known, issued)
            case Write(port, node):
                _check_known(node, read, known, issued)
                _check_written(problem, port, node, outputs)
                outputs[port] = node
    missing = [port_text(p) for p in problem.outputs if p not in outputs]
    if missing:
        raise Rejected(
            f"output {missing[0]} is never written ({len(missing)} in all): write every output once"
        )
    return {port: outputs[port] for port in problem.outputs}


def _check_issued(call: Call, read: set[Port], known: set[Node], issued: set[object]) -> None:
    """Check a call: one call, issued once, with known operands."""
    keys = {call_key(x) for x in call}
    if len(keys) != 1 or not all(x.is_collective for x in call):
        raise Rejected(
            f"{', '.join(map(str, call)) or 'nothing'} is issued: it must be one call of collectives"
        )
    if not issued.isdisjoint(keys) or len({*call}) != len(call):
        raise Rejected(f"{call[0]} is issued twice: keep the value of the first")
    for y in dict.fromkeys(y for x in call for y in x.operands):
        _check_known(y, read, known, issued)
    issued |= keys
    known.update(call)


def _check_known(node: Node, read: set[Port], known: set[Node], issued: set[object]) -> None:
    """Check everything below `node`: inputs have been read, collectives issued."""
    for x in topological([node], known):
        if x.kind is Kind.INPUT and x.port not in read:
            raise Rejected(f"{node} uses {port_text(x.port)} before it is read: read it first")
        if x.is_collective:
            raise Rejected(f"{node} uses {x} before it is issued: what one call does cannot wait for itself")
        known.add(x)


def _check_written(problem: Problem, port: Port, node: Node, outputs: Outputs) -> None:
    if port not in problem.outputs:
        raise no_such("output", port, problem.outputs)
    if port in outputs:
        raise Rejected(f"{port_text(port)} is written twice: write every output once")
    spec = problem.outputs[port]
    if node.size != spec.size or node.dtype is not spec.dtype:
        raise Rejected(
            f"{port_text(port)}: wrote {node.size} elements of {node.dtype.value},"
            f" declared {spec.size} of {spec.dtype.value}"
        )
