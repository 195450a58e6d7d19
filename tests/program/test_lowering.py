"""Lowering and memory: which steps run, what is copied, when is waited, what is alive."""

import pytest

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.memory import peak_bytes
from tests.small_problems import exchange, layers, traced


def steps_of(body: str, problem) -> list[str]:
    return [s.action.value for s in lower(traced(body, problem))]


def peak_of(body: str, problem) -> int:
    return peak_bytes(traced(body, problem))


TWO = exchange(4, {"a": (4,), "b": (4,)}, {"y": (4,)})


def test_a_collective_is_waited_for_where_its_value_is_used() -> None:
    body = 'x = all_reduce(io.read("a"))\nz = all_reduce(io.read("b"))\nio.write("y", add(x, z))'
    assert steps_of(body, TWO) == ["read", "start", "read", "start", "wait", "wait", "sum", "write"]


@pytest.mark.parametrize(
    ("body", "local"),
    [
        ('io.write("y", add(io.read("a"), io.read("b")))', ["sum"]),
        ('io.write("y", add(io.read("b"), io.read("a")))', ["sum"]),
        ('io.write("y", add(io.read("a"), all_reduce(io.read("b"))))', ["sum"]),
        ('x = io.read("b")\nio.write("y", add(add(io.read("a"), x), all_reduce(x)))', ["sum", "sum"]),
        # parts of one buffer that is there anyway, and parts that are no whole values
        (
            'x = concat([io.read("a"), io.read("b")])\ng = all_gather(x)\nu, v = split(x, 2)\n'
            'io.write("y", add(u, v))',
            ["copy", "sum"],
        ),
        (
            'u, v = split(all_reduce(io.read("a")), 2)\n'
            'io.write("y", concat([add(u, v), add(v, slice_axis(io.read("b"), 0, 1, 2))]))',
            ["sum", "copy", "sum", "copy"],
        ),
        # four addends of two values
        (
            'x = concat([io.read("a"), io.read("b")])\nu = reduce_sum(reshape(x, (4, 2)), 0)\n'
            'io.write("y", concat([u, all_reduce(u)]))',
            ["copy", "sum", "copy"],
        ),
    ],
)
def test_two_whole_values_are_added_without_a_buffer_of_both(body: str, local: list[str]) -> None:
    assert [one for one in steps_of(body, TWO) if one in ("copy", "sum")] == local


def test_a_boundary_waits_for_everything_outstanding() -> None:
    body = 'x = all_reduce(io.read("a"))\nz = all_reduce(io.read("b"))\nboundary()\nio.write("y", x)'
    assert steps_of(body, TWO) == ["read", "start", "read", "start", "wait", "wait", "boundary", "write"]


def test_a_collective_nobody_reads_is_issued_and_waited_for() -> None:
    body = 'x = all_reduce(io.read("a"))\nz = all_reduce(io.read("b"))\nio.write("y", x)'
    assert steps_of(body, TWO)[-2:] == ["write", "wait"]


def test_in_flight_counts_what_is_outstanding() -> None:
    body = 'x = all_reduce(io.read("a"))\nz = all_reduce(io.read("b"))\nio.write("y", add(x, z))'
    starts = [s.in_flight for s in lower(traced(body, TWO)) if s.action is Action.START]
    assert starts == [0, 1]


def test_only_an_owned_value_that_nobody_needs_again_is_overwritten() -> None:
    owned = 'io.write("y", all_reduce(add(io.read("a"), io.read("b"))))'
    kept = 'x = add(io.read("a"), io.read("b"))\nio.write("y", add(all_reduce(x), x))'

    def start(body: str):
        return next(s for s in lower(traced(body, TWO)) if s.action is Action.START)

    assert start(owned).in_place and not start(kept).in_place


def test_an_input_and_an_alias_are_never_overwritten() -> None:
    problem = exchange(4, {"a": (8,)}, {"y": (4,), "z": (4,)})
    body = 'x = all_reduce(io.read("a"))\nu, v = split(x, 2)\nio.write("y", scale(u, 2))\nio.write("z", v)'
    steps = lower(traced(body, problem))
    assert [bool(s.in_place) for s in steps if s.action in (Action.START, Action.SCALE)] == [False, False]


@pytest.mark.parametrize(
    ("before", "in_place"),
    [
        ("", True),
        ('io.write("z", y)', False),  # written: it is the model's
        ('io.write("z", slice_axis(y, 0, 0, 4))', False),  # the slice, written, is a part of it
        ("g = all_gather(y)", False),  # still being read
        ('g = all_gather(y)\nio.write("z", slice_axis(g, 0, 0, 4))', True),  # read, and waited for
        ("g = all_gather(y)\nboundary()", True),
    ],
)
def test_what_others_look_at_is_not_reduced_in_place(before: str, in_place: bool) -> None:
    size = 8 if "slice_axis(y" in before else 4
    more = {"z": (4,)} if "z" in before else {}
    problem = exchange(4, {"a": (size,), "b": (size,)}, {"y": (size,), **more})
    body = f'y = add(io.read("a"), io.read("b"))\n{before}\nio.write("y", all_reduce(y))'
    steps = lower(traced(body, problem))
    (start,) = (s for s in steps if s.action is Action.START and s.node and s.node.kind is Kind.ALL_REDUCE)
    assert bool(start.in_place) is in_place


def test_each_value_is_freed_once_after_its_last_use() -> None:
    problem = layers(4, 3, 2, (4,))
    body = """
for l in range(p.layers):
    total = all_reduce(concat([io.read("partial", m, l) for m in range(3)]))
    for m, part in enumerate(split(total, 3)):
        io.write("total", m, l, part)
"""
    steps = lower(traced(body, problem))
    freed = [x for s in steps for x in s.frees]
    assert len(freed) == len(set(freed)) == len({s.node for s in steps if s.node})
    for i, step in enumerate(steps):
        for later in steps[i + 1 :]:
            used = {
                later.node,
                *(later.node.operands if later.action is not Action.WRITE and later.node else ()),
            }
            assert later.action is Action.WAIT or not used & set(step.frees)


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        ('io.write("y", io.read("a"))', 0),  # the model's own value
        ('io.write("y", all_reduce(io.read("a")))', 4),  # a copy of the input, reduced in place
        ('io.write("y", scale(all_reduce(io.read("a")), 1, 4))', 4),  # scaled in place
        ('io.write("y", slice_axis(all_gather(io.read("a")), 0, 0, 4))', 16),  # the slice keeps the whole
        ('io.write("y", add(io.read("a"), io.read("b")))', 4),  # the sums
        # two inputs added (sums 4), gathered (16): an operand in flight lives until it is waited for
        ('io.write("y", slice_axis(all_gather(add(io.read("a"), io.read("b"))), 0, 0, 4))', 20),
    ],
)
def test_peak_memory_is_counted_exactly(body: str, elements: int) -> None:
    assert peak_of(body, TWO) == 4 * elements


def test_an_output_lives_until_its_last_segment_has_run() -> None:
    microbatch_major = """
for m in range(p.microbatches):
    for l in range(p.layers):
        io.write("total", m, l, all_reduce(io.read("partial", m, l)))
"""
    lockstep = """
for l in range(p.layers):
    xs = [all_reduce(io.read("partial", m, l)) for m in range(p.microbatches)]
    for m, x in enumerate(xs):
        io.write("total", m, l, x)
"""
    few, many = layers(4, 2, 2, (4,)), layers(4, 8, 2, (4,))
    assert peak_of(microbatch_major, few) == peak_of(microbatch_major, many) == 16
    assert peak_of(lockstep, many) == 4 * peak_of(lockstep, few)
