"""Views as torch expressions, by their plans; with tables of ranks where ranks differ."""

from collections.abc import Sequence

from overlayccl_core.program.nodes import Node
from overlayccl_core.program.view_plan import Layout, Piece, ViewPlan

WIDTH = 110


class TableStore:
    """Constants of a module: tables with one row per rank, expressions of them for `connect`, helpers in use.

    uniform: the statements are the same graph on every rank; ranks differ in the contents of tensors.
    """

    def __init__(self, ranks: int, *, uniform: bool = False) -> None:
        self.ranks = ranks
        self.uniform = uniform
        self.tables: dict[str, str] = {}  # NAME -> text, all ranks
        self.made: dict[str, str] = {}  # name -> expression, this rank's
        self.helpers: set[str] = set()
        self._named: dict[tuple[str, str], str] = {}

    def rank_table(self, name: str, text: str, expression: str) -> str:
        """Name this rank's part of a table: `expression` with the table's name in its braces."""
        self.tables[name.upper()] = text
        self.made[name] = expression.format(name.upper())
        return name

    def shared(self, prefix: str, text: str, expression: str) -> str:
        """Do the same, with one variable for equal tables."""
        key = (text, expression)
        if key not in self._named:
            self._named[key] = self.rank_table(f"{prefix}_{len(self._named)}", text, expression)
        return self._named[key]

    def per_rank(self, values: Sequence[int]) -> str:
        """Return each rank's integer: a number, a multiple of the rank, or a table's entry (uniform: a tensor)."""
        if len(set(values)) == 1:
            return str(values[0])
        step = values[1] - values[0]
        if all(v == values[0] + r * step for r, v in enumerate(values)):
            product = "rank" if step == 1 else f"rank * {step}"
            formula = f"{values[0]} + {product}" if values[0] else product
            return self._made_once(self._number(formula))
        return self.shared("start", table_text(tuple(values)), self._number("{}[rank]"))

    def _number(self, expression: str) -> str:
        return f"torch.tensor([{expression}]).to(device)" if self.uniform else expression

    def _made_once(self, formula: str) -> str:
        key = ("", formula)
        if key not in self._named:
            self._named[key] = f"start_{len(self._named)}"
            self.made[self._named[key]] = formula
        return self._named[key]


def table_text(values: Sequence[object]) -> str:
    """Return a tuple as a literal, its items folded into lines."""
    lines, line = [], ""
    for item in values:
        text = f"{item!r},"
        if line and len(line) + len(text) + 5 > WIDTH:
            lines.append(line)
            line = text
        else:
            line = f"{line} {text}" if line else text
    if not lines:
        return repr(tuple(values))
    return "(\n" + "\n".join(f"    {text}" for text in [*lines, line]) + "\n)"


def print_view(x: Node, plan: ViewPlan, operands: Sequence[str], store: TableStore) -> str:
    """Return the expression of a view from the names of its operands; all but an alias give fresh storage."""
    match plan.layout:
        case Layout.ZEROS:
            return f"torch.zeros({x.size}, dtype=torch.{x.dtype.value}, device=device)"
        case Layout.ALIAS:
            return _alias(plan, operands, store)
        case Layout.REPEAT:
            return f"{_joined(operands)}.repeat({plan.repeat})"
        case Layout.PIECES:
            return _pieces(x, plan, operands, store)
        case Layout.RADIX:
            return _radix(plan, _joined(operands), store)
        case Layout.ROWS:
            return _rows(plan, _joined(operands), store)


def _joined(operands: Sequence[str]) -> str:
    return operands[0] if len(operands) == 1 else f"torch.cat(({', '.join(operands)}))"


def _alias(plan: ViewPlan, operands: Sequence[str], store: TableStore) -> str:
    piece = plan.pieces[0][0]
    starts = [row[0].start for row in plan.pieces]
    if len(set(starts)) == 1:
        return f"{operands[piece.operand]}[{piece.start or ''}:{piece.start + piece.length}]"
    return f"{operands[piece.operand]}.narrow(0, {store.per_rank(starts)}, {piece.length})"


def _pieces(x: Node, plan: ViewPlan, operands: Sequence[str], store: TableStore) -> str:
    if store.uniform or (len(plan.pieces) == 1 and all(p.operand >= 0 for p in plan.pieces[0])):
        return f"torch.cat(({', '.join(_slice(x, p, operands) for p in plan.pieces[0])},))"
    store.helpers.add("join")
    table = tuple(tuple((p.operand, p.start, p.length) for p in row) for row in plan.pieces)
    if len(table) == 1:
        name = store.shared("pieces", table_text(table[0]), "{}")
    else:
        name = store.shared("pieces", table_text(table), "{}[rank]")
    return f"join({name}, ({', '.join(operands)},))"


def _slice(x: Node, piece: Piece, operands: Sequence[str]) -> str:
    if piece.operand < 0:
        return f"{operands[0]}.new_zeros({piece.length})"
    name = operands[piece.operand]
    if (piece.start, piece.length) == (0, x.operands[piece.operand].size):
        return name
    return f"{name}[{piece.start or ''}:{piece.start + piece.length}]"


def _radix(plan: ViewPlan, base: str, store: TableStore) -> str:
    text = f"{base}.view({', '.join(map(str, plan.shape))})"
    for axis, (size, extent) in enumerate(zip(plan.shape, plan.extents, strict=True)):
        if extent != size:
            text += f".narrow({axis}, {store.per_rank(plan.starts[axis])}, {extent})"
    if plan.order != tuple(sorted(plan.order)):
        text += f".permute({', '.join(map(str, plan.order))})"
    return text + ".reshape(-1)"


def _rows(plan: ViewPlan, base: str, store: TableStore) -> str:
    if store.uniform:
        return _masked_rows(plan, base, store)
    store.helpers |= {"pick_rows", "row_table"}
    if len(plan.rows) == 1:
        name = store.shared("rows", table_text(plan.rows[0]), "row_table({}, device)")
    else:
        name = store.shared("rows", table_text(plan.rows), "row_table({}[rank], device)")
    return f"pick_rows({base}, {plan.width}, {name})"


def _masked_rows(plan: ViewPlan, base: str, store: TableStore) -> str:
    """Pick rows, with a mask on all ranks if one of them needs zeros."""
    store.helpers |= {"masked_rows", "mask_table"}
    mine = "{}[rank]" if len(plan.rows) > 1 else "{}"
    zeros = any(first < 0 for runs in plan.rows for first, _ in runs)
    table = table_text(plan.rows if len(plan.rows) > 1 else plan.rows[0])
    name = store.shared("rows", table, f"mask_table({mine}, {zeros}, device)")
    return f"masked_rows({base}, {plan.width}, {name})"
