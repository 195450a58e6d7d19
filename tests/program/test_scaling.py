"""Scales run where values are born: once, on the smallest form, and with the same bits."""

from fractions import Fraction

import numpy as np
import pytest

from overlayccl_core.program.arithmetics import Real
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import make_scale, make_view
from overlayccl_core.program.program import Program, Write
from overlayccl_core.program.scaling import scaled_at_birth
from tests.random_programs import RANKS, drawn, random_program
from tests.small_problems import exchange, traced

TWO = exchange(4, {"a": (4,), "b": (8,)}, {"y": (4,), "z": (8,)})


def scales_of(body: str) -> list[tuple[int, bool]]:
    """(elements, in place) of every scale that runs."""
    steps = lower(traced(body, TWO))
    return [(s.node.size, bool(s.in_place)) for s in steps if s.action is Action.SCALE and s.node]


FLAT = 'flat = {}\nfor name, part in zip(["y", "z"], split(flat, [4, 8])):\n    io.write(name, part)'
JOINED = 'concat([io.read("a"), io.read("b")])'


@pytest.mark.parametrize(
    ("total", "scales"),
    [
        (f"scale(all_reduce({JOINED}), 1, 4)", [(12, True)]),  # one buffer, once, in place
        (f"all_gather(scale(reduce_scatter({JOINED}), 1, 4))", [(3, True)]),  # the shares
        (f"scale(all_gather(reduce_scatter({JOINED})), 1, 4)", [(3, True)]),  # the same Program
    ],
)
def test_one_buffer_is_scaled_once_where_it_is_smallest(total: str, scales: list[tuple[int, bool]]) -> None:
    assert scales_of(FLAT.format(total)) == scales


def test_a_value_of_which_some_part_is_not_scaled_is_left_alone() -> None:
    body = f'u, v = split(all_reduce({JOINED}), [4, 8])\nio.write("y", scale(u, 1, 4))\nio.write("z", v)'
    assert scales_of(body) == [(4, False)]


def test_parts_of_different_ratios_are_scaled_apart() -> None:
    parts = 'io.write("y", scale(u, 1, 4))\nio.write("z", scale(v, 1, 2))'
    body = f"u, v = split(all_reduce({JOINED}), [4, 8])\n{parts}"
    assert scales_of(body) == [(4, False), (8, False)]


def test_a_small_part_of_a_large_value_is_scaled_alone() -> None:
    small = 'io.write("y", scale(slice_axis(all_gather(io.read("a")), 0, 0, 4), 3))'
    body = f'{small}\nio.write("z", io.read("b"))'
    assert scales_of(body) == [(4, False)]


def test_what_runs_has_the_bits_of_the_normal_form() -> None:
    """Scaled versions of random Programs: outputs times 1/3, so that every rounding shows."""
    changed = 0
    for seed in range(600):
        program = random_program(seed)
        outputs = {port: make_scale(x, Fraction(1, 3)) for port, x in program.outputs.items()}
        events = [Write(e.port, outputs[e.port]) if isinstance(e, Write) else e for e in program.events]
        scaled = Program(program.problem, events)
        as_runs = {e.port: e.node for e in scaled_at_birth(scaled) if isinstance(e, Write)}
        changed += as_runs != scaled.outputs
        random = np.random.default_rng(seed)
        inputs = drawn(program.problem, scaled.outputs, draw=random.standard_normal)
        want, _ = evaluate(scaled.outputs, inputs, Real(), RANKS)
        got, _ = evaluate(as_runs, inputs, Real(), RANKS)
        for port in want:
            assert np.array_equal(got[port].on_all(), want[port].on_all()), seed
    assert changed > 40


def test_the_program_itself_stays_in_normal_form() -> None:
    program = traced(FLAT.format(f"scale(all_reduce({JOINED}), 1, 4)"), TWO)
    before = program.value_digest
    lower(program)
    assert program.value_digest == before
    assert {x.kind for x in program.outputs.values()} == {Kind.SCALE}
    (x,) = {x.operands[0].operands[0] for x in program.outputs.values()}
    assert make_view([make_scale(x, 2)], program.outputs["y",].operands[0].map).kind is Kind.SCALE
