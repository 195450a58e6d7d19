"""Atoms: as coarse as the Program allows and no coarser, and the same meaning over them."""

import time

import numpy as np
import pytest

from overlayccl_core.program import atoms, maps
from overlayccl_core.program.arithmetics import PRIME, Modular
from overlayccl_core.program.atoms import AtomPair, Cutter, block_cuts, interval_cuts, widened
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.meaning import TooLarge, evaluate
from overlayccl_core.program.nodes import Node, make_collective, make_input, make_view
from tests.random_programs import RANKS, drawn, random_program


def x_of(size: int) -> Node:
    return make_input(("x",), equal=False, size=size)


def pair_of(node: Node, wanted: Node | None = None) -> AtomPair:
    return AtomPair({("y",): node}, {("y",): wanted or node})


def test_a_value_that_nobody_cuts_is_one_atom() -> None:
    pair = pair_of(make_collective(Kind.ALL_REDUCE, x_of(8_388_608), world(224)))
    pair.cut(block_cuts)
    assert pair.largest == 1


def test_blocks_are_the_gcd_of_what_is_moved() -> None:
    pair = pair_of(make_view([x_of(48)], maps.window([0, 12, 18, 30], 12)))
    pair.cut(block_cuts)
    assert pair.inputs[("x",)].size == 48 // 6


def test_intervals_cut_only_where_something_is_cut() -> None:
    pair = pair_of(make_view([x_of(1000)], maps.window([0, 999], 1)))
    pair.cut(interval_cuts)
    assert pair.inputs[("x",)].size == 3
    assert pair.element(("y",), 0) == 0


def test_the_reference_cuts_the_program_too() -> None:
    x = x_of(12)
    turned = make_view([x], maps.permuted((3, 4), (1, 0)))
    pair = pair_of(x, turned)
    pair.cut(block_cuts)
    assert pair.largest == 12


@pytest.mark.parametrize("cutter", [block_cuts, interval_cuts])
def test_values_that_share_no_input_are_cut_alike_to_be_compared(cutter: Cutter) -> None:
    x = x_of(12)
    pair = pair_of(make_view([], maps.zeros(12)), make_view([x], maps.Map(1, 12, [0, 4], [8, 0])))
    pair.cut(cutter)
    assert pair.outputs[("y",)].size == pair.wanted[("y",)].size > 1


@pytest.mark.parametrize("cutter", [block_cuts, interval_cuts])
def test_no_atom_is_valid_in_part(cutter: Cutter) -> None:
    """Nothing but what is valid cuts here."""
    x = x_of(60)
    valid_inputs, valid_outputs = {("x",): np.array([0, 20, 60])}, {("y",): np.array([35, 0, 60])}
    pair = AtomPair({("y",): x}, {("y",): x}, valid_inputs, valid_outputs)
    pair.cut(cutter)
    starts = [pair.element(("y",), atom) for atom in range(pair.largest)] + [60]
    assert [starts[n] for n in pair.valid_inputs[("x",)]] == [0, 20, 60]
    assert [starts[n] for n in pair.valid_outputs[("y",)]] == [35, 0, 60]
    assert pair.largest == {block_cuts: 12, interval_cuts: 3}[cutter]
    wide = pair.widened(4)
    assert (wide.valid_outputs[("y",)] == 4 * pair.valid_outputs[("y",)]).all()
    assert wide.inputs[("x",)].size == 4 * pair.largest


def test_a_failing_atom_names_its_first_element() -> None:
    x = x_of(60)
    pair = pair_of(
        make_view([x], maps.concatenated(((30,), (30,)), 0)),
        make_view([x], maps.Map(1, 60, [0, 30], [30, 0])),
    )
    pair.cut(block_cuts)
    pair.cut(interval_cuts)
    assert [pair.element(("y",), atom) for atom in range(2)] == [0, 30]


@pytest.mark.parametrize("cutter", [block_cuts, interval_cuts])
@pytest.mark.parametrize("seed", range(40))
def test_an_element_is_what_its_atom_is(seed: int, cutter: Cutter) -> None:
    """Give every element of an atom the atom's value: the outputs then are the atoms' outputs, spread out."""
    program = random_program(seed)
    pair = AtomPair(program.outputs, program.outputs)
    order = pair.order
    cuts = cutter(order, [], {})
    pair.cut(cutter)
    random = np.random.default_rng(seed)
    small = drawn(program.problem, pair.outputs, draw=lambda shape: random.integers(0, PRIME, shape))
    large = {x.port: _spread(small[x.port], cuts[x], x) for x in order if x.kind is Kind.INPUT}
    got, _ = evaluate(program.outputs, large, Modular(), RANKS)
    lowered, _ = evaluate(pair.outputs, small, Modular(), RANKS)
    for port, x in program.outputs.items():
        np.testing.assert_array_equal(got[port].on_all(), _spread(lowered[port].on_all(), cuts[x], x))


def _spread(data: np.ndarray, cuts: atoms.Cuts, x: Node) -> np.ndarray:
    starts = [cuts.start(i) for i in range(cuts.count)]
    return np.repeat(data, np.diff([*starts, x.size]), axis=1)


@pytest.mark.parametrize("seed", range(12))
def test_lanes_repeat_the_graph_side_by_side(seed: int) -> None:
    program = random_program(seed)
    random = np.random.default_rng(seed)
    small = drawn(program.problem, program.outputs, draw=lambda shape: random.integers(0, PRIME, shape))
    wide = widened(program.outputs, 3)
    got, _ = evaluate(wide, {p: np.repeat(d, 3, axis=1) for p, d in small.items()}, Modular(), RANKS)
    want, _ = evaluate(program.outputs, small, Modular(), RANKS)
    for port in wide:
        np.testing.assert_array_equal(got[port].on_all(), np.repeat(want[port].on_all(), 3, axis=1))


def test_too_many_cuts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atoms, "MAX_CUTS", 10)
    pair = pair_of(make_view([x_of(40)], maps.permuted((8, 5), (1, 0))))
    with pytest.raises(TooLarge, match="cuts"):
        pair.cut(interval_cuts)


def test_cuts_that_bring_forth_cuts_one_at_a_time_are_given_up() -> None:
    """A value against the same turned by one: closed, each of a million elements would be an atom."""
    x = x_of(2**20)
    turned = maps.Map(1, x.size, np.array([0, x.size - 1]), np.array([1, 0]))
    pair = pair_of(make_view([x], turned), x)
    begun = time.process_time()
    with pytest.raises(TooLarge, match="bring forth cuts"):
        pair.cut(interval_cuts)
    assert time.process_time() - begun < 60
