"""The grammar of HLO text: a module, its computations, their instructions. It knows XLA's text and nothing of ours.

    HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}, num_partitions=8

    %sum (a: f32[], b: f32[]) -> f32[] {
      %a = f32[] parameter(0)
      %b = f32[] parameter(1)
      ROOT %add = f32[] add(f32[] %a, f32[] %b)
    }

    ENTRY %main (p: f32[8]) -> f32[8] {
      %p = f32[8]{0} parameter(0)
      ROOT %all-reduce = f32[8]{0} all-reduce(%p), replica_groups=[1,8]<=[8], to_apply=%sum, ...
    }

Operands may have their types in front or not, names their % or not. An instruction may go on in the next line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import NoReturn, TypeAlias

from overlayccl_core.program.kinds import Rejected

MAX_CHARACTERS = 2**24
MAX_RANKS = 4096
MAX_DEPTH = 32  # of tuples in tuples

_HEADER = re.compile(r"\s*HloModule\s+([^\s,]+)")
_TABLE = re.compile(r"\s*(?:FileNames|FunctionNames|FileLocations|StackFrames|\d+ .*)\s*$")  # of sources
_COMPUTATION = re.compile(r"\s*(ENTRY\s+)?%?([\w.\-]+)\s*(?=[({])")
_END = re.compile(r"\s*\}\s*(?:,\s*execution_thread=.*)?$")
_BEGIN = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+)\s+=\s+")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([^}]*)\})?")
_TILING = re.compile(r"T((?:\([^()]*\))+)")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_GAP = re.compile(r"(?:[\s,]|/\*.*?\*/)*")
_COMMENT = re.compile(r"/\*.*?(?:\*/|(?=\n)|$)")  # one without an end ends with its line: no second look
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"?|[(){}\[\],]')  # a text without an end ends with the whole
_CALLED = (
    *("calls", "to_apply", "condition", "body", "branch_computations", "called_computations"),
    *("true_computation", "false_computation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """f32[2,3]{1,0}: element type, dimensions, and their order in memory, the fastest one first.

    tiles: those in which memory holds it, as f32[8,128]{1,0:T(8,128)(2,1)}, the second within the first.
    """

    dtype: str
    dims: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()

    @property
    def elements(self) -> int:
        """Of it on one device."""
        return prod(self.dims)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


HloShape: TypeAlias = "ArrayShape | tuple[HloShape, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """%name = shape opcode(operands), attributes.

    Attributes:
        argument: The text between the parentheses: a constant's value, a parameter's number.
        line: Where it begins in the text, from 1 on.
    """

    name: str
    shape: HloShape
    opcode: str
    operands: tuple[str, ...]
    argument: str
    attributes: Mapping[str, str]
    line: int

    @property
    def called(self) -> tuple[str, ...]:
        """The computations that it names, in order."""
        texts = [self.attributes[key] for key in _CALLED if key in self.attributes]
        return tuple(name.strip(" %") for text in texts for name in text.strip("{}").split(","))

    def integers(self, key: str) -> tuple[int, ...]:
        """dimensions={1,0} as (1, 0); empty if it is not there."""
        return tuple(map(int, re.findall(r"-?\d+", self.attributes.get(key, ""))))


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Instructions by name, in the order of the text; without ROOT the last one is the result."""

    name: str
    instructions: Mapping[str, Instruction]
    root: Instruction

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """By their numbers."""
        found = [x for x in self.instructions.values() if x.opcode == "parameter"]
        found.sort(key=parameter_number)
        if [parameter_number(x) for x in found] != [*range(len(found))]:
            refuse(found[0], f"the parameters of %{self.name} are not numbered 0, 1, 2, ...")
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class HloModule:
    """What one executable does. A rank is a device: replica * partitions + partition."""

    name: str
    attributes: Mapping[str, str]
    computations: Mapping[str, Computation]
    entry: Computation

    @property
    def partitions(self) -> int:
        """num_partitions."""
        return self._count("num_partitions")

    @property
    def replicas(self) -> int:
        """replica_count."""
        return self._count("replica_count")

    @property
    def ranks(self) -> int | None:
        """Devices; None if the text does not say it, as that of torch_xla."""
        said = {"replica_count", "num_partitions"} & self.attributes.keys()
        return self.replicas * self.partitions if said else None

    def _count(self, key: str) -> int:
        text = self.attributes.get(key, "1")
        if not text.isdecimal() or not 0 < int(text) <= MAX_RANKS:
            raise Rejected(f"{key}={text[:20]} is no number from 1 to {MAX_RANKS}")
        return int(text)

    def called_by(self, instruction: Instruction, key: str = "") -> Computation:
        """The computation that an instruction names under a key, or its first one; Rejected if there is none."""
        named = instruction.attributes.get(key, "").strip(" %") if key else next(iter(instruction.called), "")
        if named not in self.computations:
            refuse(instruction, f"calls {named or 'nothing'}, which this text does not have")
        return self.computations[named]


def refuse(instruction: Instruction, why: str) -> NoReturn:
    """Raise Rejected with the line and the name of an instruction."""
    raise Rejected(f"%{instruction.name}: {why}").at(instruction.line)


def parameter_number(instruction: Instruction) -> int:
    """k of parameter(k)."""
    return int(instruction.argument)


def leaves(shape: HloShape) -> list[ArrayShape]:
    """The arrays of a shape, in order."""
    return [shape] if isinstance(shape, ArrayShape) else [x for part in shape for x in leaves(part)]


@lru_cache(maxsize=1)
def parse(text: str) -> HloModule:
    """Read the text of one module. Rejected, with the line, for anything else."""
    if len(text) > MAX_CHARACTERS:
        raise Rejected(f"HLO text of {len(text)} characters (limit {MAX_CHARACTERS}): compile a smaller part")
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("//")), 0)
    name = _HEADER.match(lines[header]) if lines else None
    if name is None:
        raise Rejected("no HLO text: its first line begins with `HloModule NAME`")
    computations: dict[str, Computation] = {}
    entry = ""
    for begin, statements in _blocks(lines, header + 1):
        made = _computation(begin[2], statements)
        if made.name in computations:
            raise Rejected(f"a second computation %{made.name}: give the text of one module").at(
                statements[0][0]
            )
        computations[made.name] = made
        entry = made.name if begin[1] else entry
    if not entry:
        raise Rejected("HLO text without an ENTRY computation: it was cut off")
    attributes = _attributes(_pieces(lines[header], name.end())[0])
    return HloModule(
        name=name[1], attributes=attributes, computations=computations, entry=computations[entry]
    )


_Statement = tuple[int, list[str]]  # where it begins, its lines


def _blocks(lines: Sequence[str], first: int) -> Iterator[tuple[re.Match[str], list[_Statement]]]:
    """(the line that begins a computation, its statements) of each."""
    begin: re.Match[str] | None = None
    statements: list[_Statement] = []
    for number, line in enumerate(lines[first:], first + 1):
        if not line.strip():
            continue
        if begin is None:
            begin, statements = _COMPUTATION.match(line) if line.rstrip().endswith("{") else None, []
            if begin is None and not _TABLE.match(line) and not line.startswith("//"):
                raise Rejected(f"no HLO: {line.strip()[:80]!r} begins no computation").at(number)
        elif _END.match(line) and statements:
            yield begin, statements
            begin = None
        elif _BEGIN.match(line):
            statements.append((number, [line.strip()]))
        elif statements:
            statements[-1][1].append(line.strip())
        else:
            raise Rejected(f"no instruction of HLO: {line.strip()[:80]!r}").at(number)
    if begin is not None:
        raise Rejected(f"computation %{begin[2]} has no end: the text was cut off")


def _computation(name: str, statements: Sequence[_Statement]) -> Computation:
    made: dict[str, Instruction] = {}
    root = ""
    for line, parts in statements:
        text = " ".join(parts)
        try:
            is_root, one = _instruction(line, text)
        except (ValueError, IndexError) as error:
            message = str(error) if isinstance(error, Rejected) else "this instruction is not understood"
            raise Rejected(f"{message}: {text[:80]!r}").at(line) from None
        if one.name in made or (root and is_root):
            refuse(one, f"is there twice, or a second ROOT, in %{name}")
        made[one.name] = one
        root = one.name if is_root else root
    return Computation(name=name, instructions=made, root=made[root] if root else one)


def _instruction(line: int, text: str) -> tuple[bool, Instruction]:
    begin = _BEGIN.match(text)
    assert begin is not None
    shape, at = _shape(text, begin.end(), MAX_DEPTH)
    opcode = _OPCODE.match(text, at)
    if opcode is None:
        raise Rejected("no operation behind the shape")
    operands, end = _pieces(text, opcode.end())
    if end == len(text):
        raise Rejected("a bracket is not closed")
    plain = [] if opcode[1] in ("parameter", "constant") else [_COMMENT.sub("", x).split() for x in operands]
    one = Instruction(
        name=begin[2],
        shape=shape,
        opcode=opcode[1],
        operands=tuple(words[-1].lstrip("%") for words in plain if words),
        argument=text[opcode.end() : end].strip(),
        attributes=_attributes(_pieces(text, end + 1)[0]),
        line=line,
    )
    if opcode[1] == "parameter":
        parameter_number(one)
    return begin[1] is not None, one


def _shape(text: str, at: int, depth: int) -> tuple[HloShape, int]:
    """The shape that begins there, with at most so many tuples in tuples, and where it ends."""
    if text[at] == "(" and depth:
        parts: list[HloShape] = []
        at = _end_of(_GAP, text, at + 1)
        while text[at] != ")":
            part, at = _shape(text, at, depth - 1)
            parts.append(part)
            at = _end_of(_GAP, text, at)
        return tuple(parts), at + 1
    array = _ARRAY.match(text, at)
    if array is None:
        raise Rejected(f"no shape at {text[at : at + 20]!r}")
    if not re.fullmatch(r"[\d,\s]*", array[2]):
        raise Rejected(f"a dimension of {array[0]} is no number: compile for fixed sizes")
    dims = tuple(int(n) for n in array[2].split(",") if n.strip())
    order, _, memory = (array[3] or "").partition(":")
    tiling = _TILING.search(memory)
    tiles = (
        tuple(tuple(map(int, one.split(","))) for one in tiling[1].strip("()").split(")(")) if tiling else ()
    )
    minor_to_major = tuple(int(n) for n in order.split(",") if n.strip()) or tuple(reversed(range(len(dims))))
    return ArrayShape(dtype=array[1], dims=dims, minor_to_major=minor_to_major, tiles=tiles), array.end()


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    assert found is not None
    return found.end()


def _pieces(text: str, at: int) -> tuple[list[str], int]:
    """The pieces between commas from `at` to the bracket that ends them (or the text), and where that stands."""
    pieces: list[str] = []
    depth, begin = 0, at
    for mark in _MARK.finditer(text, at):
        if mark[0] in {"(", "[", "{"}:
            depth += 1
        elif mark[0] == "," and not depth:
            pieces.append(text[begin : mark.start()].strip())
            begin = mark.end()
        elif mark[0] in {")", "]", "}"}:
            if not depth:
                return [*pieces, text[begin : mark.start()].strip()], mark.start()
            depth -= 1
    if depth:
        raise Rejected("a bracket is not closed")
    return [*pieces, text[begin:].strip()], len(text)


def _attributes(pieces: Sequence[str]) -> dict[str, str]:
    pairs = (piece.partition("=") for piece in pieces if piece)
    return {key.strip(): value.strip() for key, _, value in pairs}
