"""Program to the source of a standalone module of torch tensors: one statement a step, in lowering's order.

The module has `forward()` and / or `backward()`: generators that yield `Read(port)` and `Write(port, value)`,
all values flat. `connect(members, new_group, on)` makes process groups and this rank's tables once.
Collectives start asynchronously; lowering says when to wait for them. The module imports torch only.

The statements call real Python: events.py and layout.py of runtime/ (torch alone), and a library's calls, a file of
its backend with the functions of runtime/calls.pyi.

A library that compiles graphs (XLA) wants one and the same graph on all ranks. At a `uniform` Case all differences
of ranks are in tensors on the device, values are never overwritten, replica groups and permutes are those of all
ranks, and a graph boundary is a call.
"""

import keyword
import re
from collections.abc import Sequence

from overlayccl_core.emit.runtime_text import runtime_text
from overlayccl_core.emit.torch_views import WIDTH, TableStore, print_view, table_text
from overlayccl_core.program.calls import CALL_NAMES, Call, call_name
from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind, Reduction
from overlayccl_core.program.lowering import Action, Step, lets_work, lower
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import Form

EVENTS = "overlayccl_core.emit.runtime.events"
LAYOUT = "overlayccl_core.emit.runtime.layout"
ATTENTION = "overlayccl_core.emit.runtime.attention"
TAG_BITS = 20  # of a digest; the other 11 count
_NAMES = {
    Kind.VIEW: "view",
    Kind.SUM: "added",
    Kind.SCALE: "scaled",
    Kind.CAST: "cast",
    Kind.ROWWISE: "each",
    Kind.ALL_REDUCE: "reduced",
    Kind.ALL_GATHER: "gathered",
    Kind.REDUCE_SCATTER: "part",
    Kind.ALL_TO_ALL: "exchanged",
    Kind.COLLECTIVE_PERMUTE: "shifted",
}
_TAKEN = re.compile(
    rf"({'|'.join([*_NAMES.values(), 'work', 'group', 'start', 'rows', 'peers', 'pieces'])})_\d+"
    rf"|{'|'.join([*Kind, *CALL_NAMES])}|math|torch|dist|rank|device|world|join|pick_rows|pick|one_hot|Read|Write"
    r"|MAX|permutes|pairs_\d+|masked_rows|boundary|meanwhile|attend|combine|attend_backward"
)
_HEAD = """\
{title}

Generated. `connect()` once on every rank, in the same order everywhere, then run a generator: it yields Read
(answer with a flat tensor, which stays yours) and Write (take `value`, a flat tensor, which is yours).
"""


def emit(program: Program, backward_program: Program | None = None, *, calls: str) -> str:
    """Return the module's source. A Program of the backward direction becomes `backward()`.

    Args:
        calls: Dotted name of the file with the library's calls.

    Raises:
        ValueError: Both Programs have one direction or different Cases.
    """
    programs = [program] if backward_program is None else [program, backward_program]
    directions = [p.problem.direction.value for p in programs]
    case = program.problem.case.id
    if len(set(directions)) != len(directions) or len({p.problem.case.id for p in programs}) != 1:
        given = [f"{p.problem.direction.value} of {p.problem.case.id}" for p in programs]
        raise ValueError(
            f"a module holds one forward and one backward of one Case (got {' and '.join(given)})"
        )
    store = ModuleStore(program.problem.case)
    functions = [_function(p, store) for p in programs]
    names = {"Read", "Write", "this_rank", "make_group", *store.helpers}
    runtime = runtime_text(names, (EVENTS, calls, LAYOUT, ATTENTION), also=("torch",))
    title = f"{case}: {' and '.join(directions)}, {store.ranks} ranks."
    constants = [
        f'CASE = "{case}"',
        f"RANKS = {store.ranks}",
        f"DIGEST = {dict(zip(directions, (p.digest for p in programs), strict=True))!r}",
    ]
    return module_text(
        f'"""{_HEAD.format(title=title)}"""\n\n{runtime.imports}\n\n' + "\n".join(constants),
        runtime.definitions,
        store.constants(),
        store.connect(),
        *functions,
    )


def module_text(*parts: str) -> str:
    """Join the non-empty parts of a module, with two empty lines between them."""
    return "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def port_name(port: Port) -> str:
    """Name the variable of an input: partial_0_3; with a `_` at the end if the module uses that name otherwise."""
    name = "_".join(str(part).replace("-", "minus") for part in port)
    return f"{name}_" if _TAKEN.fullmatch(name) or keyword.iskeyword(name) else name


class ModuleStore(TableStore):
    """Constants and helpers of a module, shared by its functions.

    permutes: variable with the process group of permutes, if they have one of their own.
    """

    def __init__(self, case: Case, permutes: str = "") -> None:
        super().__init__(case.ranks, uniform=case.uniform)
        self.permutes = permutes
        self._groups: dict[Groups, str] = {}
        self._peers: dict[tuple[int, ...], str] = {}

    def group(self, groups: Groups) -> str:
        """Return the variable of this rank's process group (uniform: of the replica groups of all ranks)."""
        if groups not in self._groups:
            name = "world" if groups.is_world else f"group_{len(self._groups)}"
            text = "(tuple(range(RANKS)),)" if groups.is_world else table_text(groups.members)
            self.helpers.add("my_group")
            self.rank_table(name, text, "my_group({}, members, new_group)")
            self._groups[groups] = name
        return self._groups[groups]

    def peers(self, sources: tuple[int, ...]) -> str:
        """Return the variable of this rank's (uniform: every rank's) destination and source."""
        if sources not in self._peers:
            name = f"{'pairs' if self.uniform else 'peers'}_{len(self._peers)}"
            distance = sources[0]
            if sources == tuple((r + distance) % self.ranks for r in range(self.ranks)):
                self.helpers.add("shifted")
                text = f"shifted({distance}, RANKS)"
            else:
                text = table_text(sources)
            call = "pairs_of({}, members)" if self.uniform else "peers_of({}, rank, ranks)"
            self.helpers.add(call.partition("(")[0])
            self.rank_table(name, text, call)
            self._peers[sources] = name
        return self._peers[sources]

    def constants(self) -> str:
        """Return the tables of all ranks."""
        return "\n".join(f"{name} = {text}" for name, text in self.tables.items())

    def connect(self) -> str:
        """Return the function that makes groups and this rank's tables."""
        names = ["rank", "device", *self.made]
        lines = [
            'def connect(members=None, new_group=make_group, on="cpu"):',
            '    """Make the process groups and this rank\'s tables.',
            "",
            "    members: global ranks of every group that runs this problem at the same time; new_group:",
            "    makes (or keeps) the process group of some global ranks; on: device of tables and zeros.",
            '    """',
            *(f"    global {', '.join(names[i : i + 8])}" for i in range(0, len(names), 8)),
            "    members = members or (tuple(range(RANKS)),)",
            "    ranks = next(m for m in members if this_rank() in m)",
            "    rank, device = ranks.index(this_rank()), on",
            *(f"    {name} = {text}" for name, text in self.made.items()),
        ]
        return "\n".join(lines)


def _function(program: Program, store: ModuleStore) -> str:
    printer = StepPrinter(store, program)
    for step in lower(program):
        printer.step(step)
    return generator_text(program.problem.direction.value, printer.lines)


def generator_text(name: str, lines: Sequence[str]) -> str:
    """Return a generator function of these statements, even if none of them yields."""
    lines = lines if any("yield" in line for line in lines) else [*lines, "yield from ()"]
    body = "\n".join(f"    {part}" for line in lines for part in _folded(line))
    return f"def {name}():\n{body}\n"


def _folded(line: str) -> list[str]:
    """Break a long statement into lines, behind commas in its brackets."""
    lines, current, depth = [], "", 0
    for part in line.split(", "):
        if depth and len(current) + len(part) > WIDTH - 10:
            lines.append(f"{current},")
            current = f"    {part}"
        else:
            current = f"{current}, {part}" if current else part
        depth += sum(part.count(c) for c in "([{") - sum(part.count(c) for c in ")]}")
    return [*lines, current]


def tags_of(program: Program) -> range:
    """Return tags for its permutes: each Program has a range of its own, so that no other's send meets them."""
    place = 1 + int(program.digest[: TAG_BITS // 4], 16) % (2**TAG_BITS - 1)  # users' own tags are at 0
    first = place << (31 - TAG_BITS)  # tags are positive and have 31 bits
    return range(first, first + (1 << (31 - TAG_BITS)))


class StepPrinter:
    """Prints the statements of a Program's function."""

    def __init__(self, store: ModuleStore, program: Program) -> None:
        self.store = store
        self.problem = program.problem
        self.tags = tags_of(program)  # for its permutes, in turn
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.works: dict[Node, str] = {}

    def step(self, step: Step) -> None:
        """Print one step, then drop the values not needed any more."""
        match step.action:
            case Action.BOUNDARY:
                self.boundary()
            case Action.READ:
                assert step.node is not None and step.port is not None
                self.let(step.node, f"yield Read({_arguments(step.port)})", port_name(step.port))
            case Action.WRITE:
                assert step.node is not None and step.port is not None
                self.lines.append(f"yield Write({_arguments(step.port)}, {self.names[step.node]})")
            case Action.WAIT:
                assert step.node is not None
                if lets_work(self.problem, step):
                    self.store.helpers.add("meanwhile")
                    self.lines.append("meanwhile()")
                work = self.works[step.node]
                self.lines += [f"{work}.wait()", f"del {work}"]  # it would keep the operand
            case Action.START:
                self.start(step.nodes, step)
            case _:
                assert step.node is not None
                self.let(step.node, self.local(step.node, step))
        if step.frees:
            gone = [self.names[x] for x in step.frees]
            self.lines += [f"del {', '.join(gone[i : i + 5])}" for i in range(0, len(gone), 5)]

    def boundary(self) -> None:
        if self.store.uniform:
            self.store.helpers.add("boundary")
        self.lines.append("boundary()" if self.store.uniform else "# ---- graph boundary")

    def overwrites(self, step: Step) -> bool:
        """Return whether the statement may leave its result in an operand's memory."""
        return bool(step.in_place) and not self.store.uniform

    def let(self, node: Node, expression: str, name: str | None = None) -> None:
        self.names[node] = name or f"{_NAMES[node.kind]}_{len(self.names)}"
        self.lines.append(f"{self.names[node]} = {expression}")

    def local(self, x: Node, step: Step) -> str:
        """Return the expression of a local operation."""
        operands = [self.names[y] for y in step.operands]
        match x.kind:
            case Kind.VIEW:
                assert step.plan is not None
                return print_view(x, step.plan, operands, self.store)
            case Kind.SUM:
                return " + ".join(operands) if step.addends else _sum(operands[0], x)
            case Kind.SCALE:
                return _scale(operands[0], x, in_place=self.overwrites(step))
            case Kind.ROWWISE:
                return _rowwise(operands, x, self.store, in_place=self.overwrites(step))
            case _:
                return f"{operands[0]}.to(torch.{x.dtype.value})"

    def start(self, call: Call, step: Step) -> None:
        """Print the statement that starts a call."""
        function = call_name(call)
        self.store.helpers.add(function)
        first = len(self.names)
        names = [f"{_NAMES[x.kind]}_{first + i}" for i, x in enumerate(call)]
        operands = [self.operand(x, step) for x in call]
        if len(call) > 1:
            given, results = f"[{', '.join(operands)}]", f"({', '.join(names)})"
        else:
            [given], [results] = operands, names
        work = "_" if self.store.uniform else f"work_{first}"  # compiled graphs have no waits
        self.lines.append(f"{results}, {work} = {function}({self.collective_arguments(call[0], given)})")
        self.names.update(zip(call, names, strict=True))
        self.works.update(dict.fromkeys(call, work))

    def operand(self, x: Node, step: Step) -> str:
        """Return a collective's argument: a copy if the library would overwrite a value still needed."""
        operand = self.names[x.operands[0]]
        kept = x.kind is not Kind.ALL_REDUCE or x in step.in_place or self.store.uniform
        return operand if kept else f"{operand}.clone()"

    def collective_arguments(self, x: Node, operand: str) -> str:
        if x.kind is Kind.COLLECTIVE_PERMUTE:
            tag = self.tags[len(self.works) % len(self.tags)]
            among = f", {self.store.permutes}" if self.store.permutes else ""
            return f"{operand}, {self.store.peers(x.sources)}, {tag}{among}"
        group = self.store.group(x.groups)
        reduction = ""
        if x.attr.reduction is Reduction.MAX:
            self.store.helpers.add("MAX")
            reduction = ", MAX"
        if x.kind is Kind.ALL_REDUCE:
            return f"{operand}, {group}{reduction}"
        if x.kind is Kind.ALL_TO_ALL:
            return f"{operand}, {group}"
        return f"{operand}, {x.size}, {group}{reduction if x.kind is Kind.REDUCE_SCATTER else ''}"


def _sum(operand: str, x: Node) -> str:
    if x.count == 2:
        return f"{operand}[:{x.size}] + {operand}[{x.size}:]"
    return f"{operand}.view({x.count}, {x.size}).sum(0)"


def _scale(operand: str, x: Node, *, in_place: bool) -> str:
    """Numerator first, then denominator: exact wherever the product and the quotient are."""
    n, d = x.ratio.numerator, x.ratio.denominator
    if in_place:
        return operand + (f".mul_({n})" if n != 1 else "") + (f".div_({d})" if d != 1 else "")
    return operand + (f" * {n}" if n != 1 else "") + (f" / {d}" if d != 1 else "")


def _rowwise(operands: Sequence[str], x: Node, store: ModuleStore, *, in_place: bool) -> str:
    row, operation = x.row, x.row.operation
    if operation.form is Form.HEADS:
        store.helpers.add(row.name)
        where = f", {store.per_rank(row.first)}, {row.heads}" if row.first else ""
        return f"{row.name}({', '.join(operands)}{where}, {row.width})"
    if operation.form in (Form.PICK, Form.ONE_HOT):
        store.helpers.add(row.name)
        dtype = f", torch.{x.dtype.value}" if operation.form is Form.ONE_HOT else ""
        first = store.per_rank(row.first)
        if store.uniform and len(set(row.first)) > 1:  # a tensor
            operands, first = [*operands[:-1], f"{operands[-1]} - {first}"], "0"
        return f"{row.name}({', '.join(operands)}, {first}, {row.width}{dtype})"
    wide = row.wide([y.size for y in x.operands])
    if row.width > 1:
        operands = [f"{y}.view(-1, {row.width if w else 1})" for y, w in zip(operands, wide, strict=True)]
    if operation.torch:
        return operation.torch.format(*operands)
    out = f", out={operands[0]}" if in_place else ""
    return f"torch.{row.name}({', '.join(operands)}{out})" + (".view(-1)" if row.width > 1 else "")


def _arguments(port: Port) -> str:
    return ", ".join(map(repr, port))
