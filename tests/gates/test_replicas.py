"""What is replicated has the same bits on all ranks: told from the Program, and seen in float32."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.trials import Trial
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.replicas import unlike_replicas
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.arithmetics import Real
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.random_programs import drawn, random_program
from tests.small_problems import exchange, strategy
from tests.timing.batches import deployment

WORDS = (
    "add, all_gather, all_reduce, all_to_all, broadcast, cast, collective_permute, concat, flatten, index_select,"
    " reduce_scatter, reduce_sum, reshape, scale, select, split"
)
WIDTH = 128
SUM = 'io.write("y", all_reduce(io.read("x")))'

RING = """
x = io.read("x")
total = x
for d in range(1, p.ranks):
    total = add(total, collective_permute(x, [(r, (r + d) % p.ranks) for r in range(p.ranks)]))
io.write("y", total)
"""
DOUBLING = """
y = io.read("x")
for bit in (1, 2):
    y = add(y, collective_permute(y, [(r, r ^ bit) for r in range(4)]))
io.write("y", y)
"""


def problem(ranks: int = 4, *, replicated: bool = True, valid: tuple[int, ...] | None = None) -> Problem:
    shape = (WIDTH * ranks,)
    whole = exchange(ranks, {"x": shape}, {"y": shape}, equal=("y",) if replicated else ())
    outputs = {port: replace(spec, valid=valid) for port, spec in whole.outputs.items()}
    return replace(whole, outputs=outputs)


def judged(body: str, of: Problem) -> tuple[Program, Verdict]:
    program = trace_source(strategy(body, WORDS), "tried", of)
    return program, prove(program, trace_source(strategy(SUM), "tried", of))


def unlike_bits(program: Program, seed: int = 0) -> int:
    """How many elements differ in float32 between ranks on which they are replicated. Some inputs are zeros of
    either sign."""
    random = np.random.default_rng(seed)

    def draw(shape: tuple[int, int]) -> NDArray[np.float32]:
        normals = random.standard_normal(shape).astype(np.float32)
        return np.where(random.random(shape) < 0.2, np.copysign(np.float32(0), normals), normals)

    inputs = drawn(program.problem, program.outputs, draw=draw)
    held, _ = evaluate(program.outputs, inputs, Real(), program.problem.ranks)
    differ = 0
    for port, spec in program.problem.outputs.items():
        counts = np.full(program.problem.ranks, spec.size) if spec.valid is None else np.array(spec.valid)
        values, means = held[port].on_all().view(np.int32), np.arange(spec.size) < counts[:, None]
        differ += int(((values != values[counts.argmax()]) & means).any(0).sum())
    return differ


def assert_refused(body: str, of: Problem) -> Verdict:
    verdict = judged(body, of)[1]
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.RANKS_DIFFER), verdict.message
    return verdict


def test_a_refusal_names_element_ranks_and_the_mend() -> None:
    message = assert_refused(RING, problem()).message
    parts = ("y, element 0:", "rank 0 and ranks 1, 2, 3", "all_gather, reduce_sum")
    assert all(part in message for part in parts)
    assert "7, 8, ... (11 in all)" in assert_refused(RING, problem(12)).message
    assert judged(RING, problem(2))[1].passed  # two ranks have one order


RIGHT = {
    "the library's own": SUM,
    "sums of two, in either order": DOUBLING,
    "shares, gathered": 'io.write("y", all_gather(reduce_scatter(io.read("x"))))',
    "gathered, added in one order": """
io.write("y", flatten(reduce_sum(reshape(all_gather(io.read("x")), (p.ranks, -1)), 0)))
""",
    "copies, added in one order": 'io.write("y", reduce_sum(all_to_all(broadcast(io.read("x"), 0, p.ranks)), 0))',
    "a ring, put in one order": """
x = io.read("x")
came = [collective_permute(x, [(r, (r + d) % p.ranks) for r in range(p.ranks)]) if d else x for d in range(p.ranks)]
rows = reshape(concat(came), (p.ranks, -1))
by_source = index_select(rows, [[(r - s) % p.ranks for s in range(p.ranks)] for r in range(p.ranks)])
io.write("y", flatten(reduce_sum(by_source, 0)))
""",
    "tiers, one after the other": """
io.write("y", all_reduce(all_reduce(io.read("x"), "sum", [[0, 1], [2, 3]]), "sum", [[0, 2], [1, 3]]))
""",
    "one rank's own order, sent to all": RING.replace(
        'io.write("y", total)', 'io.write("y", all_reduce(select(total, [0, 0, 1, 0])))'
    ),
    "16 bits for everybody": 'io.write("y", cast(all_reduce(cast(io.read("x"), "bfloat16")), "float32"))',
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT.keys())
def test_one_order_for_all_ranks_is_accepted(body: str) -> None:
    program, verdict = judged(body, problem())
    assert verdict.passed, verdict.message
    assert unlike_bits(program) == 0


@pytest.mark.parametrize("ranks", [6, 9])
def test_groups_of_one_call_whose_members_give_the_same_get_the_same(ranks: int) -> None:
    body = """
nodes = [range(k, k + 3) for k in range(0, p.ranks, 3)]
across = [range(k, p.ranks, 3) for k in range(3)]
io.write("y", all_reduce(all_reduce(io.read("x"), "sum", nodes), "sum", across))
"""
    program, verdict = judged(body, problem(ranks))
    assert verdict.passed, verdict.message
    assert unlike_bits(program) == 0


WRONG = {
    "a ring": RING,
    "gathered, added from my own on": """
rows = reshape(all_gather(io.read("x")), (p.ranks, -1))
turned = index_select(rows, [[(r + k) % p.ranks for k in range(p.ranks)] for r in range(p.ranks)])
io.write("y", flatten(reduce_sum(turned, 0)))
""",
    "my own term in full, the others' in 16 bits": """
x = io.read("x")
apart = reshape(cast(all_gather(cast(x, "bfloat16")), "float32"), (p.ranks, -1))
others = flatten(reduce_sum(index_select(apart, [[-1 if k == r else k for k in range(4)] for r in range(4)]), 0))
io.write("y", add(x, others))
""",
    "pairs that differ from rank to rank": """
a, b, c, d = split(all_gather(io.read("x")), 4)
one, other = add(add(a, b), add(c, d)), add(add(a, c), add(b, d))
io.write("y", add(select(one, [1, 1, 0, 0]), select(other, [0, 0, 1, 1])))
""",
    "zeros added on some ranks only: -0 becomes +0": """
total = all_reduce(io.read("x"))
other = all_reduce(select(total, [1, 0, 0, 0]))
io.write("y", add(select(total, [1, 0, 0, 0]), select(other, [0, 1, 1, 1])))
""",
}
MINUS = """
half = slice_axis(scale(all_reduce(io.read("x")), -1), 0, 0, 256)
negative = concat([half, zeros((256,))])
"""


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_another_order_on_another_rank_is_refused(body: str) -> None:
    assert_refused(body, problem())
    program, verdict = judged(body, problem(replicated=False))
    assert unlike_bits(program) > 0
    assert verdict.passed, verdict.message


def test_a_zero_times_something_negative_is_another_zero() -> None:
    words = f"{WORDS}, slice_axis, zeros"
    body = """
nothing = slice_axis(collective_permute(io.read("z"), [(0, 1)]), 0, 0, 256)
positive = concat([half, nothing])
io.write("y", add(select(negative, [1, 1, 0, 0]), select(positive, [0, 0, 1, 1])))
"""
    of = exchange(4, {"x": (512,), "z": (512,)}, {"y": (512,)}, equal=("y",))
    program = trace_source(strategy(MINUS + body, words), "tried", of)
    reference = trace_source(strategy(MINUS + 'io.write("y", negative)', words), "tried", of)
    verdict = prove(program, reference)
    assert verdict.reason is Reason.RANKS_DIFFER and unlike_bits(program) > 0


COPIES = 'io.write("y", reduce_scatter(flatten(broadcast(io.read("x"), 0, p.ranks))))'


def test_elements_that_a_collective_adds_at_other_places_are_not_the_same() -> None:
    """A ring starts each share of the buffer at another rank; NumPy does not, so no bits differ there."""
    assert_refused(COPIES, problem())
    assert judged(COPIES, problem(2))[1].passed  # of two terms there is one order


@pytest.mark.ranks
def test_the_verdict_is_that_of_real_ranks(tmp_path: Path) -> None:
    bodies = {**RIGHT, **WRONG, "copies": COPIES}
    programs = [trace_source(strategy(body, WORDS), "tried", problem()) for body in bodies.values()]
    x = np.random.default_rng(0).standard_normal((4, 4 * WIDTH)).astype(np.float32).astype(np.float64)
    x[:, ::7] = -0.0  # its sign is a bit, too
    jobs = [
        Job(key=name, program=p, source=backend.emit(p)) for name, p in zip(bodies, programs, strict=True)
    ]
    trials = [Trial(job=job, inputs={("x",): x}) for job in jobs]
    seen = backend.run_once(deployment(4), tmp_path, trials, may_refuse=True)
    alike = {
        t.job.key
        for t, s in zip(trials, seen, strict=True)
        if len({rank.tobytes() for rank in s.outputs[("y",)]}) == 1
    }
    assert alike == set(RIGHT)


@pytest.mark.parametrize(
    ("valid", "right"),
    [
        (None, False),
        ((0, 4 * WIDTH, 0, 0), True),
        ((4 * WIDTH, 0, 4 * WIDTH, 0), False),
        ((4 * WIDTH, 0, WIDTH, 0), False),
        ((4 * WIDTH,) * 4, False),
    ],
)
def test_where_it_means_nothing_it_may_hold_anything(valid: tuple[int, ...] | None, right: bool) -> None:
    of = problem(valid=valid)
    program, verdict = judged(RING, of)
    assert verdict.passed == right == (unlike_bits(program) == 0)
    if valid and valid[1] == 0:
        assert "rank 0 and rank 2 round" in verdict.message


def test_alike_but_for_where_it_is_replicated_is_not_alike() -> None:
    of = exchange(4, {"a": (8,), "b": (8,)}, {"u": (8,), "v": (8,)}, equal=("v",))
    ring = RING.replace('io.read("x")', 'io.read("{}")').replace('io.write("y"', 'io.write("{}"')
    body = ring.format("a", "u") + ring.format("b", "v")
    reference = 'io.write("u", all_reduce(io.read("a")))\nio.write("v", all_reduce(io.read("b")))'
    verdict = prove(
        trace_source(strategy(body, WORDS), "tried", of), trace_source(strategy(reference), "tried", of)
    )
    assert verdict.reason is Reason.RANKS_DIFFER and verdict.message.startswith("v, element 0")


# ---------------------------------------------------------------------------------- float32 is the arbiter
TREES = (
    "add(add(add({}, {}), {}), {})",
    "add(add({}, {}), add({}, {}))",
    "add({}, scale(add({}, add({}, {})), 1))",
)


@settings(max_examples=60, deadline=None)
@given(
    tree=st.sampled_from(TREES),
    orders=st.lists(st.permutations(range(4)), min_size=1, max_size=2),
    which=st.lists(st.integers(0, 1), min_size=4, max_size=4),
)
def test_the_verdict_on_four_terms_is_that_of_float32(
    tree: str, orders: list[list[int]], which: list[int]
) -> None:
    """Every rank adds the gathered terms by one tree, in one of two orders: additions of two terms only."""
    table = [orders[w % len(orders)] for w in which]
    body = f"""
rows = index_select(reshape(all_gather(io.read("x")), (4, -1)), {table})
a, b, c, d = [flatten(row) for row in split(rows, 4)]
io.write("y", {tree.format("a", "b", "c", "d")})
"""
    program, verdict = judged(body, problem())
    assert verdict.passed == (unlike_bits(program) == 0), verdict.message


def _replicated(seed: int) -> Program:
    """A random Program of which the same is asked on all ranks, whether it gives that or not."""
    program = random_program(seed)
    outputs = {
        port: replace(spec, placement=Placement.REPLICATE) for port, spec in program.problem.outputs.items()
    }
    return Program(replace(program.problem, outputs=outputs), program.events)


def test_what_passes_as_equal_on_all_ranks_has_equal_bits_in_float32() -> None:
    passed = 0
    for seed in range(400):
        program = _replicated(seed)
        if not unlike_replicas(AtomPair.of(program.problem, program.outputs, program.outputs), program):
            passed += 1
            assert unlike_bits(program, seed) == 0, seed
    assert 30 < passed < 100
