"""Operations on rows: one table says what they compute, how they are printed, and what they need."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from overlayccl_core.costmodel.features import features
from overlayccl_core.emit.runtime import layout
from overlayccl_core.emit.torch_dialect import ModuleStore, StepPrinter
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.program.arithmetics import Bits, Real
from overlayccl_core.program.case import Case
from overlayccl_core.program.facts import value_numbers
from overlayccl_core.program.json_form import InvalidProgram, dumps, from_json, loads
from overlayccl_core.program.kinds import DType, Kind, Placement, Rejected
from overlayccl_core.program.lowering import Action, Step, lower
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.nodes import Node, make_cast, make_input, make_rowwise
from overlayccl_core.program.numerics import rounds
from overlayccl_core.program.problem import PortSpec, Problem
from overlayccl_core.program.rowwise import ELEMENTARY, OPERATIONS, Form, RowAttr
from overlayccl_core.program.text_form import text
from tests.small_problems import exchange, traced

ROWS, WIDTH, RANKS = 3, 5, 4


def wide(name: str = "x") -> Node:
    return make_input((name,), equal=False, size=ROWS * WIDTH)


def narrow() -> Node:
    return make_input(("y",), equal=False, size=ROWS)


def ids() -> Node:
    return make_input(("ids",), equal=True, size=ROWS, dtype=DType.INT64)


def made(name: str) -> Node:
    """An operation on rows of WIDTH, of a kind of operands that it takes."""
    form, operands = OPERATIONS[name].form, OPERATIONS[name].operands
    if form is Form.EACH:
        return make_rowwise(RowAttr(name=name, width=WIDTH), [wide(), narrow()][:operands])
    if form is Form.REDUCE:
        return make_rowwise(RowAttr(name=name, width=WIDTH), [wide()])
    first = tuple(range(RANKS))
    return make_rowwise(RowAttr(name=name, width=WIDTH, first=first), [wide(), ids()][-operands:])


def inputs() -> dict[tuple[str], Any]:
    random = np.random.default_rng(0)
    return {
        ("x",): np.abs(random.standard_normal((RANKS, ROWS * WIDTH), np.float32)) + 1,
        ("y",): np.abs(random.standard_normal((RANKS, ROWS), np.float32)) + 1,
        ("ids",): np.array([[0, 4, 7]]),
    }


@pytest.mark.parametrize("name", sorted(ELEMENTARY))
def test_what_is_printed_computes_what_it_means(name: str) -> None:
    x = made(name)
    given = inputs()
    held, _ = evaluate({("z",): x}, given, Real(), RANKS)
    store = ModuleStore(Case(problem="rows", ranks=RANKS, ranks_per_node=RANKS, name="", parameters=()))
    printer = StepPrinter(store, SimpleNamespace(problem=None, digest="0" * 64))
    printer.names = {y: str(y.port[0]) for y in x.operands}
    code = printer.local(x, Step(action=Action.ROWWISE, event=0, nodes=(x,)))
    for rank in range(RANKS):
        rows = {str(p[0]): torch.from_numpy(a[rank % len(a)].copy()) for p, a in given.items()}
        here = {"torch": torch, "rank": rank, "pick": layout.pick, "one_hot": layout.one_hot, **rows}
        here |= {made: eval(formula, {}, here) for made, formula in store.made.items()}
        got = eval(code, here)
        assert got.shape == (x.size,)
        np.testing.assert_allclose(got.numpy(), held["z",].on(rank), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(ELEMENTARY))
def test_bits_tell_apart_what_ranks_make_of_other_values(name: str) -> None:
    """Ranks with equal operands get equal numbers, others do not."""
    x = made(name)
    same = {p: np.repeat(a[:1] % 7 + 1, len(a), 0).astype(np.int64) for p, a in inputs().items()}
    same["x",][3] += 1
    same["y",][3] += 1
    held, _ = evaluate({("z",): x}, same, Bits(), RANKS)
    rows = held["z",].on_all()
    if x.row.first:
        assert len({row.tobytes() for row in rows}) == RANKS
    else:
        assert (rows[0] == rows[2]).all() and (rows[0] != rows[3]).any()
    assert value_numbers(x, RANKS).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("attr", "operands", "message"),
    [
        (RowAttr(name="sub", width=4), [wide(), narrow()], "sub: .*row of 4 .got 15"),
        (RowAttr(name="exp"), [wide(), narrow()], "exp takes 1 operands"),
        (RowAttr(name="row_max", width=4), [wide()], "row_max: 15 .*rows of 4"),
        (RowAttr(name="exp"), [ids()], "exp of ids: .*looked up"),
        (RowAttr(name="pick", width=5, first=(0,)), [wide(), narrow()], "ids .got float32"),
        (RowAttr(name="pick", width=3, first=(0,)), [wide(), ids()], "pick: 15 .*rows of 3"),
    ],
)
def test_what_does_not_fit_is_refused(attr: RowAttr, operands: list[Node], message: str) -> None:
    with pytest.raises(Rejected, match=message):
        make_rowwise(attr, operands)


def test_nothing_becomes_an_id() -> None:
    with pytest.raises(Rejected, match=r"integers: .*are ids"):
        make_cast(wide(), DType.INT64)


def problem(*, linear: bool = False) -> Problem:
    plain = exchange(RANKS, {"x": (ROWS, WIDTH)}, {"z": (ROWS, WIDTH)}, linear=linear)
    named = PortSpec(shape=(ROWS,), dtype=DType.INT64, placement=Placement.REPLICATE, within=(0, 9))
    return Problem(
        case=plain.case,
        inputs={**plain.inputs, ("ids",): named},
        outputs=plain.outputs,
        segments=plain.segments,
        parameters=plain.parameters,
        linear=linear,
    )


SOFTMAX = """
x = io.read("x")
e = exp(sub(x, reshape(reduce_max(x, 1), (3, 1))))
io.write("z", div(e, reshape(reduce_sum(e, 1), (3, 1))))
"""


def test_a_softmax_is_one_of_every_row() -> None:
    program = traced(SOFTMAX, problem())
    held, _ = evaluate(program.outputs, inputs(), Real(), RANKS)
    x = torch.from_numpy(inputs()["x",][2]).view(ROWS, WIDTH)
    np.testing.assert_allclose(held["z",].on(2), x.softmax(1).flatten().numpy(), rtol=1e-6)


def test_it_takes_the_place_of_an_operand_that_nobody_needs() -> None:
    """sub makes a value, exp and div leave theirs there."""
    program = traced(SOFTMAX, problem())
    steps = [s for s in lower(program) if s.action is Action.ROWWISE]
    assert [bool(s.in_place) for s in steps] == [False, False, True, False, True]
    assert peak_bytes(program) == (ROWS * WIDTH + ROWS) * 4


def test_it_is_counted_and_told() -> None:
    program = traced(SOFTMAX, problem())
    counted = {column.name: value for column, value in features(program).items()}
    assert counted["scale.count"] == 2 and counted["exp.count"] == 1 and counted["sum.count"] == 2
    assert counted["sum.bytes"] == 2 * ROWS * WIDTH * 4
    assert "x - row1, rows of 5" in text(program) and "row_max(x), rows of 5" in text(program)


@pytest.mark.parametrize("word", ["exp(x)", "mul(x, x)", "maximum(x, x)", 'all_reduce(x, "max")'])
def test_a_linear_problem_admits_none_and_says_which(word: str) -> None:
    program = traced(f'x = io.read("x")\nio.write("z", {word})', problem(linear=True))
    verdict = legality.check(program)
    assert verdict.reason is Reason.NOT_LINEAR
    assert word.partition("(")[0] in verdict.message and "linear operations only" in verdict.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('io.write("z", cast(io.read("ids"), "float32"))', "cast of ids"),
        ('io.write("z", all_reduce(io.read("ids")))', "all_reduce of ids"),
        ('io.write("z", scale(io.read("ids"), 2))', "scale of ids"),
        ('io.write("z", cast(io.read("x"), "int64"))', "dtype must be one of"),
        ('x = io.read("x")\nio.write("z", sub(x, reshape(x, (5, 3))))', "sub: shapes .*: reshape"),
        ('io.write("z", pick(io.read("x"), reshape(io.read("ids"), (1, 3)), 0))', r"ids .*\(3,\).* \(1, 3\)"),
        ('io.write("z", one_hot(io.read("ids"), [0, 1], 5))', "first: .*4 .got 2"),
        ('io.write("z", one_hot(io.read("ids"), 0, 0))', "size must be at least 1"),
    ],
)
def test_a_refusal_says_what_is_wrong(body: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        traced(body, problem())


def test_an_id_that_a_rank_has_not_gives_zeros() -> None:
    program = traced('io.write("z", one_hot(io.read("ids"), [0, 5, 10, 15], 5))', problem())
    held, _ = evaluate(program.outputs, inputs(), Real(), RANKS)
    assert held["z",].on_all().reshape(RANKS, ROWS, WIDTH).sum(2).tolist() == [
        [1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip


def test_ids_may_be_laid_out() -> None:
    program = traced(
        'mine = slice_axis(io.read("ids"), 0, [0, 1, 2, 0], 1)\n'
        'io.write("z", reshape(one_hot(mine, 0, 15), (3, 5)))',
        problem(),
    )
    held, _ = evaluate(program.outputs, inputs(), Real(), RANKS)
    assert held["z",].on_all().argmax(1).tolist() == [0, 4, 7, 0]


def test_json_that_names_no_operation_or_other_ranks_is_refused() -> None:
    program = traced('io.write("z", one_hot(io.read("ids"), [0, 5, 10, 15], 5))', problem())
    assert loads(dumps(program)).digest == program.digest
    for field, value in (("operation", "tan"), ("first", [1, 2]), ("width", 4)):
        data = json.loads(dumps(program))
        next(n for n in data["nodes"] if n["kind"] == "rowwise")[field] = value
        with pytest.raises(InvalidProgram):
            from_json(data)


def test_which_of_them_round() -> None:
    assert {name for name in ELEMENTARY if not rounds(made(name))} == {
        "maximum",
        "row_max",
        "pick",
        "one_hot",
    }
    assert all(made(name).kind is Kind.ROWWISE for name in ELEMENTARY)
