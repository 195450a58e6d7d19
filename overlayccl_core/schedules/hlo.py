"""Optimized HLO text of an XLA executable, read into a Program: which collectives came out, and are they right?

Parameters are a Problem's inputs, results its outputs, in order; a rank is a device (replica, then partition).

- *Collectives* become those of the Program, in the order of the text, which is the schedule if `is_scheduled`. A
  start issues the call; its value cannot be used before its end. An all-reduce of several operands is one call.
- *Movements*, sums, and scales by one number become values; so does what a fusion, a call or a loop does of them.
- *Numbers known on each rank*, as those computed from partition-id and constants, are worked out.
- *Everything else computes*. No result may depend on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from overlayccl_core.program import language
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Problem, port_text
from overlayccl_core.program.program import Program
from overlayccl_core.program.recorder import IO, Value
from overlayccl_core.program.tracing import trace_function
from overlayccl_core.schedules.hlo_collectives import (
    KINDS,
    MAX_NESTING,
    base_opcode,
    groups_of_ranks,
    pairs_of_ranks,
)
from overlayccl_core.schedules.hlo_operations import (
    OPERATIONS,
    constant,
    iota,
    of_numbers,
    reduced_numbers,
    sum_over,
)
from overlayccl_core.schedules.hlo_text import (
    ArrayShape,
    Computation,
    HloModule,
    HloShape,
    Instruction,
    leaves,
    parse,
    refuse,
)
from overlayccl_core.schedules.hlo_values import (
    FLOATS,
    NUMBERS,
    Array,
    Begun,
    Computes,
    Held,
    Holed,
    Known,
    Opaque,
    as_value,
)

MAX_STEPS = 1_000_000  # instructions, those of a loop each time

_SAME = ("copy", "optimization-barrier", "add-dependency", "domain")
_INLINED = {"fusion": "calls", "call": "to_apply", "async": "calls"}
_REDUCTIONS = {"add": "sum", "maximum": "max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HloReading:
    """A Program, and what the text computes besides, which no result depends on: a line each."""

    program: Program
    besides: tuple[str, ...]


def _kind(x: Instruction) -> str:
    """The type of its elements; of a tuple: no type."""
    return x.shape.dtype if isinstance(x.shape, ArrayShape) else ""


def _width(x: Instruction) -> int:
    """Bytes of an element."""
    return FLOATS[_kind(x)].bytes if _kind(x) in FLOATS else 0


def program_of(text: str, problem: Problem) -> Program:
    """The Program of an executable. Rejected, with line and instruction, where a result is computed otherwise."""
    return read_hlo(text, problem).program


def read_hlo(text: str, problem: Problem) -> HloReading:
    """The Program of an executable, and what it computes besides. Raises as `program_of`."""
    module = parse(text)
    if module.ranks is None:
        module = replace(module, attributes={**module.attributes, "replica_count": str(problem.ranks)})
    if module.ranks != problem.ranks:
        raise Rejected(
            f"the module is of {module.replicas} x {module.partitions} devices (replicas x partitions),"
            f" {problem.case.id} of {problem.ranks} ranks: compile it for as many"
        )
    given = leaves(tuple(x.shape for x in module.entry.parameters))
    _check_count("parameters", given, "inputs", problem.inputs)
    _check_count("results", leaves(module.entry.root.shape), "outputs", problem.outputs)
    run = _Run(module=module, problem=problem)
    program = trace_function(lambda io, p: run.main(io), problem)
    return HloReading(program=program, besides=tuple(dict.fromkeys(run.besides)))


def _check_count(what: str, found: Sequence[ArrayShape], ports: str, wanted: Mapping[Port, Any]) -> None:
    if len(found) != len(wanted):
        raise Rejected(
            f"the module has {len(found)} {what} ({', '.join(map(str, found[:4]))}), the Problem {len(wanted)}"
            f" {ports}: they correspond in order"
        )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One reading: the module is run on values of all ranks."""

    module: HloModule
    problem: Problem
    besides: list[str] = field(default_factory=list)
    steps: int = 0
    nesting: int = 0

    def main(self, io: IO) -> None:
        """Run the entry: a parameter is read where it is used first, a result written as soon as it is there."""
        entry, values = self.module.entry, dict[str, Held]()
        inputs, outputs = iter(self.problem.inputs), iter(self.problem.outputs)
        unread = {x.name: _ports_of(x.shape, inputs) for x in entry.parameters}
        named = entry.root.operands if entry.root.opcode == "tuple" else (entry.root.name,)
        results: dict[str, list[list[Port]]] = {}
        for name in named:
            ports = _ports_of(self._named(entry, name, entry.root).shape, outputs)
            results.setdefault(name, []).append(ports)
        for x in entry.instructions.values():
            if x.opcode == "parameter" and x.name not in results:
                continue
            for name in [one for one in dict.fromkeys((x.name, *x.operands)) if one in unread]:
                given = entry.instructions[name]
                values[name] = self._read(io, given, given.shape, iter(unread.pop(name)))
            if x.opcode != "parameter":
                values[x.name] = self.step(x, entry, values)
            for ports in results.get(x.name, ()):
                self._write(io, x, values[x.name], ports)

    def call(self, x: Instruction, computation: Computation, held: Sequence[Held]) -> Held:
        """Run a computation that an instruction names."""
        if len(computation.parameters) != len(held):
            refuse(x, f"gives {len(held)} operands to %{computation.name} of {len(computation.parameters)}")
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            refuse(x, f"computations are nested deeper than {MAX_NESTING}")
        values = {p.name: one for p, one in zip(computation.parameters, held, strict=True)}
        for inner in computation.instructions.values():
            if inner.opcode != "parameter":
                values[inner.name] = self.step(inner, computation, values)
        self.nesting -= 1
        return values[computation.root.name]

    def step(self, x: Instruction, computation: Computation, values: Mapping[str, Held]) -> Held:
        """What an instruction gives."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            refuse(x, f"more than {MAX_STEPS} instructions, loops written out: read a shorter loop")
        for name in x.operands:
            if name not in values:
                refuse(x, f"uses %{name} before it is there")
        held = [values[name] for name in x.operands]
        if x.opcode.endswith(("-done", "-update")):
            if held and isinstance(held[0], Opaque):
                return held[0]
            if not held or not isinstance(held[0], Begun):
                refuse(x, "ends what no start has begun")
            return self._checked(x, held[0].held) if x.opcode.endswith("-done") else held[0]
        if any(isinstance(one, Begun) for one in held):
            refuse(x, "uses a value between its start and its end")
        try:
            made = self._apply(x, base_opcode(x.opcode), computation, held)
        except Computes as why:
            self.besides.append(f"line {x.line}: %{x.name} {why}")
            made = Opaque(f"%{x.name} (line {x.line}), which {why}")
        except (LookupError, TypeError, ValueError) as error:
            if isinstance(error, Rejected) and error.line is not None:
                raise
            refuse(x, str(error) if isinstance(error, Rejected) else f"is not understood ({error})")
        return Begun(made) if x.opcode.endswith("-start") else self._checked(x, made)

    def _apply(self, x: Instruction, opcode: str, computation: Computation, held: list[Held]) -> Held:
        if opcode in _INLINED:
            return self.call(x, self.module.called_by(x, _INLINED[opcode]), held)
        match opcode:
            case "tuple":
                return tuple(held)
            case "after-all":
                return ()
            case "get-tuple-element" if isinstance(held[0], tuple):
                return held[0][int(x.attributes["index"])]
            case "while":
                return self._loop(x, held)
        if opaque := next((one for one in held if isinstance(one, Opaque)), None):
            return opaque
        if opcode in _SAME:
            return held[0]
        arrays = [one for one in held if isinstance(one, Value | Known | Holed)]
        if 0 in (n for leaf in leaves(x.shape) for n in leaf.dims):
            raise Computes("has no elements")
        if opcode == "custom-call":
            raise Computes(
                f"calls {x.attributes.get('custom_call_target', 'what is not named')}".replace('"', "")
            )
        if len(arrays) == len(held) and opcode in KINDS:
            return self._collective(x, opcode, [*map(as_value, arrays)])
        if len(arrays) < len(held) or not isinstance(x.shape, ArrayShape):
            raise Computes(f"computes {opcode}")
        shapes = [leaves(computation.instructions[name].shape)[0] for name in x.operands]
        return self._array(x, opcode, x.shape, arrays, shapes)

    def _array(
        self,
        x: Instruction,
        opcode: str,
        to: ArrayShape,
        held: list[Array],
        shapes: list[ArrayShape],
    ) -> Array:
        if opcode in ("partition-id", "replica-id"):
            ranks, n = np.arange(self.problem.ranks), self.module.partitions
            number = ranks % n if opcode == "partition-id" else ranks // n
            return Known((), number[:, None].astype(np.uint32))
        if opcode in ("constant", "iota"):
            return constant(x, to) if opcode == "constant" else iota(x, to)
        known = [one for one in held if isinstance(one, Known)]
        if opcode == "reduce" and len(held) == 2:
            by = self._combines(x)
            if len(known) == 2:
                return reduced_numbers(x, to, known, by)
            if by == "add":
                return sum_over(x, held)
            raise Computes(f"reduces by {by}")
        if known and len(known) == len(held) and (made := of_numbers(x, to, known)):
            return made
        if opcode not in OPERATIONS:
            raise Computes(f"computes {opcode}")
        return OPERATIONS[opcode](x, to, held, shapes)

    def _collective(self, x: Instruction, opcode: str, values: list[Value]) -> Held:
        if opcode == "collective-permute":
            pairs = pairs_of_ranks(x, self.module)
            return _one_or_all([language.collective_permute(value, pairs) for value in values])
        groups, dims = groups_of_ranks(x, self.module), x.integers("dimensions")
        match opcode:
            case "all-reduce" if len(values) == 1:
                return language.all_reduce(values[0], self._reduction(x), groups)
            case "all-reduce":
                return tuple(language.all_reduce(values, self._reduction(x), groups))
            case "all-gather":
                return _one_or_all([language.all_gather(value, dims[0], groups) for value in values])
            case "reduce-scatter":
                if (how := self._reduction(x)) != "sum":
                    raise Computes(f"scatters a {how}")
                return _one_or_all([language.reduce_scatter(value, dims[0], groups) for value in values])
        if dims:
            return _one_or_all([language.all_to_all(value, dims[0], groups) for value in values])
        if {len(group) for group in groups} != {len(values)}:
            refuse(x, f"gives {len(values)} operands to groups of {len(groups[0])}")
        blocks = language.concat([Value(value.node, (1, *value.shape)) for value in values])
        parts = language.split(language.all_to_all(blocks, 0, groups), len(values))
        return tuple(Value(part.node, values[0].shape) for part in parts)

    def _reduction(self, x: Instruction) -> str:
        """sum or max; Computes for another one."""
        by = self._combines(x)
        if by not in _REDUCTIONS:
            raise Computes(f"reduces by {by}, neither a sum nor a maximum")
        return _REDUCTIONS[by]

    def _combines(self, x: Instruction) -> str:
        """The operation that it applies to two numbers at a time, casts aside; Computes if it is more than one."""
        applied = self.module.called_by(x, "to_apply")

        def below_casts(name: str) -> Instruction:
            one, seen = self._named(applied, name, x), {name}
            while one.opcode in ("convert", "copy", "bitcast"):
                (name,) = one.operands[:1]
                below = self._named(applied, name, x)
                if name in seen or not {_kind(one), _kind(below)} <= FLOATS.keys():
                    raise Computes(
                        f"reduces by %{applied.name}, which casts what is no floating point number"
                    )
                one = below
                seen.add(name)
            return one

        root = below_casts(applied.root.name)
        terms = [below_casts(name) for name in root.operands]
        if any(_kind(one) != _kind(root) and _width(one) >= _width(root) for one in terms):
            raise Computes(f"reduces by %{applied.name}, in {_kind(root)}")
        if sorted((one.opcode, one.argument) for one in terms) != [("parameter", "0"), ("parameter", "1")]:
            raise Computes(f"reduces by %{applied.name}, which is more than one operation on two numbers")
        return root.opcode

    def _loop(self, x: Instruction, held: list[Held]) -> Held:
        """A loop whose number of rounds is known, and the same on all ranks."""
        while True:
            goes_on = self.call(x, self.module.called_by(x, "condition"), held)
            if not isinstance(goes_on, Known):
                raise Computes("loops as long as data say")
            rounds = {*goes_on.of_each_rank()}
            if len(rounds) != 1:
                raise Computes("loops as long as the rank says")
            if rounds == {0}:
                return held[0]
            held = [self.call(x, self.module.called_by(x, "body"), held)]

    def _read(self, io: IO, x: Instruction, shape: HloShape, ports: Iterator[Port]) -> Held:
        if isinstance(shape, tuple):
            return tuple(self._read(io, x, part, ports) for part in shape)
        port = next(ports)
        value = io.read(*port)  # type: ignore[arg-type]
        _check_port(x, shape, port, value.shape, value.dtype)
        return Value(value.node, shape.dims)

    def _write(self, io: IO, x: Instruction, held: Held, ports: Sequence[Port]) -> None:
        """Write a result, of one port or more."""
        for port, one, shape in zip(ports, _flat(x.shape, held), leaves(x.shape), strict=True):
            if isinstance(one, Known | Holed):
                try:
                    one = as_value(one)
                except Computes as why:
                    one = Opaque(f"%{x.name} (line {x.line}), which {why}")
            if isinstance(one, Opaque):
                raise Rejected(f"{port_text(port)} depends on {one.why}: a Program moves, adds and scales")
            if not isinstance(one, Value):
                refuse(x, f"{port_text(port)} is written before its end")
            spec = self.problem.outputs[port]
            _check_port(x, shape, port, spec.shape, spec.dtype.value)
            io.write(*port, Value(one.node, spec.shape))  # type: ignore[arg-type]

    def _checked(self, x: Instruction, made: Held) -> Held:
        """The same, if it has the shape that the text gives it."""
        if not _agrees(x.shape, made):
            refuse(x, "its shape is not what its operands give")
        return made

    def _named(self, computation: Computation, name: str, by: Instruction) -> Instruction:
        if name not in computation.instructions:
            refuse(by, f"uses %{name}, which is not there")
        return computation.instructions[name]


def _ports_of(shape: HloShape, ports: Iterator[Port]) -> list[Port]:
    return [next(ports) for _ in leaves(shape)]


def _one_or_all(values: list[Value]) -> Held:
    return values[0] if len(values) == 1 else tuple(values)


def _flat(shape: HloShape, held: Held) -> list[Held]:
    """The arrays of a nested tuple; what stands for several of them, as often."""
    if isinstance(held, tuple) and isinstance(shape, tuple):
        return [one for a, b in zip(shape, held, strict=True) for one in _flat(a, b)]
    return [held] * len(leaves(shape))


def _agrees(shape: HloShape, held: Held) -> bool:
    if isinstance(held, Opaque | Begun) or held == ():
        return True
    if isinstance(held, tuple):
        return isinstance(shape, tuple) and len(shape) == len(held) and all(map(_agrees, shape, held))
    if isinstance(shape, tuple) or shape.dtype not in NUMBERS:
        return False
    if isinstance(held, Holed):
        held = held.value
    if isinstance(held, Known):
        return held.shape == shape.dims and held.rows.dtype == NUMBERS[shape.dtype]
    return held.shape == shape.dims and shape.dtype in FLOATS and held.dtype == FLOATS[shape.dtype].value


def _check_port(x: Instruction, shape: ArrayShape, port: Port, wanted: Sequence[int], dtype: str) -> None:
    elements = int(np.prod(shape.dims)), int(np.prod(wanted))
    if elements[0] != elements[1] or shape.dtype not in FLOATS or FLOATS[shape.dtype].value != dtype:
        refuse(x, f"{shape} stands for {port_text(port)}, which is {elements[1]} elements of {dtype}")
