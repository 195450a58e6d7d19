"""The operations of attention: printed ones compute what is meant, parts combine, misfits are refused."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from overlayccl_core.emit.runtime import attention as printed
from overlayccl_core.emit.torch_dialect import ModuleStore, StepPrinter
from overlayccl_core.program import attention
from overlayccl_core.program.arithmetics import Bits, Double
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import InvalidProgram, dumps, from_json, loads
from overlayccl_core.program.kinds import DType, Rejected
from overlayccl_core.program.lowering import Action, Step, lower
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.nodes import Node, make_input, make_rowwise
from overlayccl_core.program.rowwise import RowAttr
from overlayccl_core.program.text_form import text
from tests.small_problems import exchange, traced

RANKS, HEADS, QUERIES, KEYS, WIDTH = 4, 2, 3, 4, 5
SIZES = attention.Sizes(heads=HEADS, queries=QUERIES, keys=KEYS, width=WIDTH)
AHEADS = {  # of the ranks: nothing, some keys, all but one, all
    "one for each": (-QUERIES, 0, KEYS - 2, KEYS - 1),
    "everything is seen": (KEYS - 1,),
    "nothing is": (-QUERIES,),
}


def made(name: str, ahead: tuple[int, ...]) -> Node:
    letters = attention.OPERATIONS[name].operands
    operands = [
        make_input(
            (f"{letter}{i}",), equal=False, size=int(np.prod(SIZES.shape(letter))), dtype=DType.FLOAT64
        )
        for i, letter in enumerate(letters)
    ]
    first, heads = ((), 1) if name == "combine" else (ahead, HEADS)
    return make_rowwise(RowAttr(name=name, width=WIDTH, first=first, heads=heads), operands)


def inputs(x: Node) -> dict[tuple[Any, ...], Any]:
    random = np.random.default_rng(0)
    return {y.port: random.standard_normal((RANKS, y.size)) for y in x.operands}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("ahead", AHEADS.values(), ids=AHEADS)
@pytest.mark.parametrize("name", attention.OPERATIONS)
def test_what_is_printed_computes_what_it_means(name: str, ahead: tuple[int, ...], uniform: bool) -> None:
    """Where all ranks share a graph, `ahead` is a tensor, and no key is left out."""
    x = made(name, ahead)
    given = inputs(x)
    held, _ = evaluate({("z",): x}, given, Double(), RANKS)
    case = Case(problem="heads", ranks=RANKS, ranks_per_node=RANKS, name="", parameters=(), uniform=uniform)
    store = ModuleStore(case)
    printer = StepPrinter(store, SimpleNamespace(problem=None, digest="0" * 64))
    printer.names = {y: str(y.port[0]) for y in x.operands}
    code = printer.local(x, Step(action=Action.ROWWISE, event=0, nodes=(x,)))
    tables = {name: eval(said) for name, said in store.tables.items()}
    for rank in range(RANKS):
        values = {str(p[0]): torch.from_numpy(a[rank].copy()) for p, a in given.items()}
        here = {**tables, "torch": torch, "rank": rank, "device": "cpu", **vars(printed), **values}
        here |= {name: eval(formula, {}, here) for name, formula in store.made.items()}
        np.testing.assert_allclose(eval(code, here).numpy(), held["z",].on(rank), rtol=1e-12, atol=1e-14)
        for port, value in given.items():
            assert (here[str(port[0])].numpy() == value[rank]).all(), "an operand was overwritten"


def test_parts_combine_to_the_whole_in_any_order_also_where_one_or_both_see_nothing() -> None:
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((HEADS, n, WIDTH)) for n in (6, 6, 6))
    lowest = attention.unseen(np.dtype(np.float64))
    attend, combine = (attention.OPERATIONS[name].meaning for name in ("attend", "combine"))
    whole = attend(q, k, v, 0, lowest)
    parts = [attend(q, k[:, a : a + 2], v[:, a : a + 2], -a, lowest) for a in (4, 2, 0)]
    assert (parts[0][1][:, :4] == lowest).all() and (parts[0][0][:, :4] == 0).all()
    found = parts[0]
    for part in parts[1:]:
        found = combine(*found, *part, 0, lowest)
    for got, want in zip(found, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    nothing = combine(*(x[:, :2] for x in (*parts[0], *parts[0])), 0, lowest)
    assert (nothing[0] == 0).all() and (nothing[1] == lowest).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_unseen_weighs_nothing_beside_scores_of_any_size(dtype: str) -> None:
    lowest = attention.unseen(np.dtype(dtype))
    out, lse = np.ones((1, 1, 1), dtype), np.array([[-3e4]], dtype)
    none = np.zeros((1, 1, 1), dtype), np.full((1, 1), lowest, dtype)
    for got in (
        attention.OPERATIONS["combine"].meaning(out, lse, *none, 0, lowest),
        attention.OPERATIONS["combine"].meaning(*none, out, lse, 0, lowest),
    ):
        assert got[0] == 1 and got[1] == lse


def test_heads_are_evaluated_as_many_at_once_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    x = made("attend_backward", (1,))
    at_once, _ = evaluate({("z",): x}, inputs(x), Double(), RANKS)
    monkeypatch.setattr(attention, "AT_ONCE", 1)
    one_by_one, _ = evaluate({("z",): x}, inputs(x), Double(), RANKS)
    np.testing.assert_allclose(one_by_one["z",].on_all(), at_once["z",].on_all(), rtol=1e-13)


def test_bits_tell_apart_what_ranks_make_of_other_values_or_positions() -> None:
    x = made("attend", (0, 0, 0, 1))
    same = {p: np.ones(a.shape, np.int64) for p, a in inputs(x).items()}
    same[x.operands[2].port][1, -1] = 2
    rows = evaluate({("z",): x}, same, Bits(), RANKS)[0]["z",].on_all()
    assert (rows[0] == rows[2]).all()
    assert (rows[0] != rows[1]).all() and (rows[0] != rows[3]).all()


BODY = """
x = io.read("x")
out, lse = attend(x, x, x, [0, 3, 6, 9], 3)
out, lse = combine(out, lse, out, lse)
io.write("z", attend_backward(x, x, x, out, lse, out, 0, 0)[1])
"""


def heads_of(dtype: str = "float32") -> Any:
    return exchange(
        RANKS, {"x": (HEADS, 3, WIDTH)}, {"z": (HEADS, 3, WIDTH)}, linear=False, dtype=DType(dtype)
    )


def test_a_program_of_them_travels_as_json_and_is_told() -> None:
    program = traced(BODY, heads_of())
    assert loads(dumps(program)).digest == program.digest
    said = text(program)
    assert "attend(x, x, x), 2 heads, rows of 5, the queries behind the keys by" in said
    assert "combine(" in said
    for field, value in (("heads", 7), ("width", 3), ("first", [1, 2])):
        data = json.loads(dumps(program))
        next(n for n in data["nodes"] if n.get("operation") == "attend")[field] = value
        with pytest.raises(InvalidProgram):
            from_json(data)


def test_positions_count_as_far_as_they_hide_keys() -> None:
    """Behind the last key or before the first query, one Program is as good as another: they are one."""
    seen = [
        traced(f'x = io.read("x")\nio.write("z", attend(x, x, x, {first}, 0)[0])', heads_of())
        for first in ("2", "100", "[2, 5, 9, 2]", "[1, 5, 9, 2]", "1", "[1, 1, 1, 1]")
    ]
    assert seen[0].digest == seen[1].digest == seen[2].digest != seen[3].digest
    assert seen[4].digest == seen[5].digest


def test_scores_are_held_for_a_while() -> None:
    program = traced('x = io.read("x")\nio.write("z", attend(x, x, x, 0, 0)[0])', heads_of())
    of = attention.Sizes(heads=HEADS, queries=3, keys=3, width=WIDTH)
    q, lse, scores, mask = 4 * 30, 4 * 6, 4 * 18, 9
    assert [of.bytes(letter, 4) for letter in "qlsmk"] == [q, lse, scores, mask, q]
    assert peak_bytes(program) == max(scores + mask, scores + 2 * lse + q, 2 * q + 3 * lse)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("attend(x, x, flatten(x), 0, 0)", r"attend: operands must have the shapes .*got .*\(30,\)"),
        ("attend(flatten(x), x, x, 0, 0)", r"axes \(heads, positions, n\)"),
        ("attend(x, slice_axis(x, 0, 0, 1), slice_axis(x, 0, 0, 1), 0, 0)", "as many heads and as wide"),
        ("attend(x, x, x, [0, 1], 0)", "q_first: .*4 .got 2"),
        ("combine(x, x, x, x)", r"combine: .*\(2, 3\)"),
    ],
)
def test_a_refusal_says_what_is_wrong(call: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        traced(f'x = io.read("x")\nio.write("z", {call}[0])', heads_of())


def test_sixteen_bits_become_more_and_sizes_must_fit() -> None:
    program = traced(
        'x = io.read("x")\nio.write("z", cast(attend(x, x, x, 0, 0)[0], x.dtype))', heads_of("bfloat16")
    )
    assert {x.dtype for x in program.nodes if x.kind.value == "rowwise"} == {DType.FLOAT32}
    narrow = [make_input((n,), equal=False, size=30, dtype=DType.BFLOAT16) for n in "qkv"]
    attr = RowAttr(name="attend", width=WIDTH, first=(0,), heads=HEADS)
    with pytest.raises(Rejected, match="32 bits at least: cast"):
        make_rowwise(attr, narrow)
    wide = [make_input((n,), equal=False, size=size) for n, size in zip("qkv", (30, 30, 20), strict=True)]
    with pytest.raises(Rejected, match=r"attend: 30 and 30 and 20 .*2 heads of rows of 5"):
        make_rowwise(attr, wide)
    with pytest.raises(Rejected, match=r"attend takes 3 operands .got 2"):
        make_rowwise(attr, wide[:2])


RING = """
k, v = io.read("x"), io.read("x2")
found = attend(k, k, v, 0, 0)
for _ in range(2):
    pairs = [(r, (r + 1) % 4) for r in range(4)]
    k, v = collective_permute(k, pairs), collective_permute(v, pairs)
    mine = attend(k, k, v, 0, 0)
    found = combine(found[0], found[1], mine[0], mine[1])
io.write("z", found[0])
"""


def test_attention_of_what_is_there_is_made_before_a_wait_and_lets_keys_go() -> None:
    shape = (HEADS, 3, WIDTH)
    problem = exchange(RANKS, {"x": shape, "x2": shape}, {"z": shape}, linear=False)
    program = traced(RING, problem)
    steps = [
        step.node.row.name if step.action is Action.ROWWISE else step.action.value
        for step in lower(program)
        if step.node is not None and step.action in (Action.ROWWISE, Action.START, Action.WAIT)
    ]
    assert steps == [
        *("start", "start", "attend", "wait", "start", "wait", "start"),  # as the first keys travel
        *("attend", "combine", "wait", "wait", "attend", "combine"),
    ]
