"""A Program as text for people: its events in order, every value named at its first use."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from overlayccl_core.program.kinds import IssueOrder, Kind, Reduction
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Boundary, Issue, Program, Read, Write
from overlayccl_core.program.rowwise import Form, RowAttr
from overlayccl_core.program.view_plan import Layout, Piece, ViewPlan, view_plan

MOST_RANKS = 4  # written out if ranks differ
MOST_ITEMS = 6  # of a list, the rest is counted


def text(program: Program) -> str:
    """One line per read, value, collective, write and boundary.

    Values are flat; `x[a:b]` is a stretch of elements. If ranks differ, the first ones are written out.
    """
    problem = program.problem
    n = len(program.calls)
    head = f"{problem.case.id} {problem.direction.value}, {n} collective{'s' * (n != 1)}, {program.digest}"
    return "\n".join([head, *_lines(program)]) + "\n"


def _lines(program: Program) -> Iterator[str]:
    names: dict[Node, str] = {}
    for event in program.events:
        match event:
            case Read(port):
                node = program.problem.input_node(port)
                names[node] = "_".join(map(str, port))
                yield f"  {names[node]} = read {port_text(port)}  {_type(node)}"
            case Issue(call):
                yield from _started(call, names)
            case Write(port, node):
                yield from _made(node, names)
                yield f"  write {port_text(port)} = {names[node]}"
            case Boundary():
                yield "  -------- graph boundary"


def _made(node: Node, names: dict[Node, str]) -> Iterator[str]:
    """The lines making a value and everything below it without a name yet."""
    for x in topological([node], names):
        names[x] = f"{_PREFIX.get(x.kind, 'v')}{len(names)}"
        yield f"  {names[x]} = {_operation(x, [names[y] for y in x.operands])}  {_type(x)}"


def _started(call: Sequence[Node], names: dict[Node, str]) -> Iterator[str]:
    """The lines starting a call of one or several values."""
    for x in call:
        for y in x.operands:
            yield from _made(y, names)
    yield from (line for x in call for line in _made(x, names))
    if len(call) > 1:
        yield f"  {', '.join(names[x] for x in call)} are one call"


_PREFIX = {Kind.VIEW: "view", Kind.SUM: "sum", Kind.SCALE: "scaled", Kind.CAST: "cast", Kind.ROWWISE: "row"}


def _type(x: Node) -> str:
    return f"{x.dtype.short}[{x.size}]"


def _operation(x: Node, operands: list[str]) -> str:
    match x.kind:
        case Kind.VIEW:
            return _layout(view_plan(x), operands)
        case Kind.SUM:
            return f"sum of {x.count} blocks of {operands[0]}"
        case Kind.SCALE:
            return f"{operands[0]} * {x.ratio}"
        case Kind.CAST:
            return f"cast({operands[0]}, {x.dtype.value})"
        case Kind.ROWWISE:
            return _rowwise(x.row, operands)
        case _:
            return f"{x.kind.value}({', '.join([operands[0], *_attributes(x)])})"


def _rowwise(row: RowAttr, operands: list[str]) -> str:
    said = row.operation.text or f"{row.name}({', '.join(f'{{{i}}}' for i in range(len(operands)))})"
    rows = f", rows of {row.width}" if row.width > 1 else ""
    if row.operation.form is Form.HEADS:
        rows = f", {row.heads} heads{rows}" if row.first else rows
    what = "the queries behind the keys by" if row.operation.form is Form.HEADS else "ids from"
    first = (
        f", {what} {_per_rank([str(n) for n in row.first[:MOST_RANKS]], len(row.first))}" if row.first else ""
    )
    return said.format(*operands) + rows + first


def _attributes(x: Node) -> Iterator[str]:
    if x.kind is Kind.COLLECTIVE_PERMUTE:
        pairs = [f"{source}->{rank}" for rank, source in enumerate(x.sources) if source >= 0]
        yield _some(pairs)
    else:
        if x.attr.reduction is Reduction.MAX:
            yield "max"
        if not x.groups.is_world:
            yield "groups " + _some([_ranks(g) for g in x.groups.members], 2)
    order = x.label.issue
    if x.label.graph or order is not IssueOrder.AS_WRITTEN:
        yield f"graph {x.label.graph or 0}" + ("" if order is IssueOrder.AS_WRITTEN else f", {order.words}")


def _ranks(members: tuple[int, ...]) -> str:
    """0..31, 0..224 by 32, or the members."""
    steps = {b - a for a, b in pairwise(members)}
    if len(members) > 2 and len(steps) == 1:
        by = "" if steps == {1} else f" by {next(iter(steps))}"
        return f"{{{members[0]}..{members[-1]}{by}}}"
    return "{" + _some([str(r) for r in members]) + "}"


def _layout(plan: ViewPlan, operands: list[str]) -> str:
    """A view's layout, in the words of the strategy language as far as they reach."""
    whole = operands[0] if len(operands) == 1 else f"concat({_some(operands)})"
    match plan.layout:
        case Layout.ZEROS:
            return "zeros"
        case Layout.REPEAT:
            return f"{plan.repeat} copies of {whole}"
        case Layout.ALIAS | Layout.PIECES:
            rows = [_pieces(row, operands, plan.sizes) for row in plan.pieces[:MOST_RANKS]]
            return _per_rank(rows, len(plan.pieces))
        case Layout.RADIX:
            return _radix(plan, whole)
        case Layout.ROWS:
            rows = [_rows(row) for row in plan.rows[:MOST_RANKS]]
            return f"rows of {plan.width} of {whole}: {_per_rank(rows, len(plan.rows))}"


def _pieces(row: tuple[Piece, ...], operands: list[str], sizes: tuple[int, ...]) -> str:
    parts = [_piece(p, operands, sizes) for p in row]
    return parts[0] if len(parts) == 1 else f"concat({_some(parts)})"


def _piece(p: Piece, operands: list[str], sizes: tuple[int, ...]) -> str:
    if p.operand < 0:
        return f"zeros({p.length})"
    if p.length == sizes[p.operand]:
        return operands[p.operand]
    return f"{operands[p.operand]}[{p.start}:{p.start + p.length}]"


def _radix(plan: ViewPlan, whole: str) -> str:
    text = f"reshape({whole}, {plan.shape})"
    for axis, (first, extent) in enumerate(zip(plan.starts, plan.extents, strict=True)):
        if extent != plan.shape[axis]:
            start = (
                str(first[0]) if len(set(first)) == 1 else f"{{{_some([str(s) for s in first], MOST_RANKS)}}}"
            )
            text = f"slice_axis({text}, {axis}, {start}, {extent})"
    return text if plan.order == tuple(range(len(plan.order))) else f"permute_dims({text}, {plan.order})"


def _rows(runs: tuple[tuple[int, int], ...]) -> str:
    parts = [
        f"{n} zero" if first < 0 else str(first) if n == 1 else f"{first}..{first + n - 1}"
        for first, n in runs
    ]
    return "[" + _some(parts) + "]"


def _per_rank(rows: list[str], count: int) -> str:
    if count == 1:
        return rows[0]
    shown = "; ".join(f"rank {rank}: {row}" for rank, row in enumerate(rows))
    return "{" + shown + (f"; ... {count} ranks" if count > len(rows) else "") + "}"


def _some(items: list[str], most: int = MOST_ITEMS) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown}, ... {len(items)} in all"
