"""Chunk programs: what copies and sums become, what a stale reference says, what is refused."""

import random
from collections import Counter

import numpy as np
import pytest

from overlayccl_core.gates.equivalence import prove
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program import chunks
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.small_problems import exchange, traced

PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})


def run(program: str, parts: int = 4, results: str = "", before: str = "") -> Program:
    """The Program of a chunk program with this body, which begins in line 5 (7, after `before`)."""
    body = "\n".join(f"    {line}" for line in program.strip("\n").split("\n"))
    words = "from overlayccl_core.program.language import chunked, parallelize\n\n\n"
    use = f'def tried(io, p):\n    io.write("y", chunked(program, io.read("x"), {parts}{results}))\n'
    return trace_source(f"{words}def program(chunk, p):\n{body}\n\n\n{use}", "tried", PROBLEM)


def gives(program: Program, body: str) -> bool:
    """Whether a Program is the strategy with this body."""
    return prove(program, traced(body, PROBLEM)).outcome is Outcome.PASS


def calls(program: Program) -> list[tuple[str, int]]:
    return [(x.kind.value, x.size) for x in program.collectives]


SHIFTED = 'io.write("y", collective_permute(io.read("x"), [(r, (r + 1) % 4) for r in range(4)]))'
TO_NEXT = """
for rank in range(4):
    for i in range(4):
        chunk(rank, "input", i).copy((rank + 1) % 4, "output", i)
"""


def test_chunks_of_one_pair_of_ranks_go_in_one_message() -> None:
    program = run(TO_NEXT, results=", 4")
    assert calls(program) == [("collective_permute", 8)]
    assert program.value_digest == traced(SHIFTED, PROBLEM).value_digest


def test_a_reduction_adds_where_its_reference_is_and_moves_the_other_there() -> None:
    program = run('chunk(2, "input", 1, 2).reduce(chunk(0, "input", 2, 2))')
    assert calls(program) == [("collective_permute", 4)]
    assert gives(
        program,
        """
x = io.read("x")
came = select(collective_permute(slice_axis(x, 0, 4, 4), [(0, 2)]), [0, 0, 1, 0])
io.write("y", add(x, pad(came, 0, 2, 8)))
""",
    )


def test_a_chunk_that_nobody_writes_is_zero_in_the_output_and_as_given_in_place() -> None:
    kept = 'io.write("y", select(io.read("x"), [1, 0, 0, 0]))'
    body = 'chunk(0, "input", 0, 4).copy(0, "output", 0)'
    assert gives(run(body, results=", 4"), kept)
    assert gives(run("pass"), 'io.write("y", io.read("x"))')
    assert run("pass", results=", 4").collectives == []


def test_the_result_has_as_many_chunks_as_it_says() -> None:
    problem = exchange(4, {"x": (8,)}, {"y": (4,)})
    body = """
def halves(chunk, p):
    for rank in range(p.ranks):
        chunk(rank, "input", 3).copy(rank, "output", 1)
        chunk(rank, "input", 0).copy(rank, "output", 0)
io.write("y", chunked(halves, io.read("x"), 4, results=2))
"""
    plain = 'x = io.read("x")\nio.write("y", concat([slice_axis(x, 0, 0, 2), slice_axis(x, 0, 6, 2)]))'
    assert traced(body, problem).value_digest == traced(plain, problem).value_digest


def test_chunks_of_one_reference_travel_together_though_some_are_there_earlier() -> None:
    """Without that they would be two messages: one waits for rank 0's chunk, one for nothing."""
    program = run("""
chunk(0, "input", 0).copy(1, "input", 1)
chunk(1, "input", 0, 2).copy(2, "input", 0)
""")
    assert calls(program) == [("collective_permute", 2), ("collective_permute", 4)]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_transfers_in_parallelize_go_as_several_calls_in_flight(parts: int) -> None:
    fragment = TO_NEXT.replace("\n", "\n    ")
    program = run(f"def fragment():{fragment}\nparallelize({parts}, fragment)", results=", 4")
    assert len(program.collectives) == parts and {x.depth for x in program.collectives} == {1}
    assert sum(x.size for x in program.collectives) == 8
    assert gives(program, SHIFTED)


def test_outside_of_the_fragment_transfers_are_whole_and_nested_ones_multiply() -> None:
    inner = "parallelize(2, lambda: parallelize(2, lambda: chunk(0, 'input', 0, 4).copy(1, 'input', 0)))"
    program = run(f"c = {inner}\nc.copy(2, 'input', 0)")
    assert Counter(x.depth for x in program.collectives) == {1: 4, 2: 1}


@pytest.mark.parametrize("seed", range(40))
def test_buffers_end_as_if_each_line_ran_by_itself(seed: int) -> None:
    """Random copies and sums, beside the same on buffers of integers."""
    draw = random.Random(seed)
    parts = draw.choice([1, 2, 4])
    width = 8 // parts
    data = np.arange(4 * 8).reshape(4, 8) ** 3 % 1009
    buffers = {("input", r, i): data[r, i * width : (i + 1) * width] for r in range(4) for i in range(parts)}
    lines = []
    for _ in range(draw.randint(1, 25)):
        buffer, rank, index = draw.choice(sorted(buffers))
        following = [i for i in range(index, parts) if (buffer, rank, i) in buffers]
        count = draw.randint(
            1, next((k for k, i in enumerate(following) if i != index + k), len(following)) or 1
        )
        taken = [buffers[buffer, rank, index + i] for i in range(count)]
        one = f"chunk({rank}, {buffer!r}, {index}, {count})"
        to = (draw.choice(["input", "scratch"]), draw.randrange(4), draw.randint(0, parts - count))
        there = [buffers.get((*to[:2], to[2] + i)) for i in range(count)]
        if draw.random() < 0.5 and all(x is not None for x in there):
            line = f"chunk({to[1]}, {to[0]!r}, {to[2]}, {count}).reduce({one})"
            taken = [x + y for x, y in zip(there, taken, strict=True)]
        else:
            line = f"{one}.copy({to[1]}, {to[0]!r}, {to[2]})"
        buffers |= {(*to[:2], to[2] + i): x for i, x in enumerate(taken)}
        lines.append(f"parallelize({draw.randint(2, 3)}, lambda: {line})" if draw.random() < 0.2 else line)
    program = run("\n".join(lines), parts=parts)
    got, _ = evaluate(program.outputs, {("x",): data.astype(float)}, Double(), 4)
    wanted = [np.concatenate([buffers["input", rank, i] for i in range(parts)]) for rank in range(4)]
    np.testing.assert_array_equal(got[("y",)].on_all(), wanted)


# ------------------------------------------------------------------------------------------ stale references
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            'c = chunk(0, "input", 1)\nchunk(1, "input", 0).copy(0, "input", 1)\nc.copy(2, "output", 0)',
            "line 7: .*chunk 1 of rank 0's input was written before the program ran, .* by copy in line 6",
        ),
        (
            'c = chunk(0, "input", 1).copy(3, "scratch", 2)\nd = c.reduce(chunk(1, "input", 0))\n\n'
            'c.copy(2, "output", 0)',
            r"line 8: .*chunk 2 of rank 3's scratch was written by copy in line 5, .* by reduce in line 6"
            r".*chunk\(3, 'scratch', 2\) again",
        ),
        (
            'c = chunk(0, "input", 0, 3)\nchunk(0, "input", 3).copy(0, "input", 2)\n'
            'chunk(1, "input", 0, 3).reduce(c)',
            "line 7: .*chunk 2 of rank 0's input",
        ),
        (
            'c = chunk(0, "input", 0)\nc.reduce(c)\nc.reduce(chunk(0, "input", 1))',
            "line 7: .*before the program ran, .*by reduce in line 6",
        ),
    ],
)
def test_a_stale_reference_names_both_writes(program: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        run(program, results=", 4")


def test_a_write_of_a_file_of_ways_is_named_with_the_file() -> None:
    source = (
        "from overlayccl_core.program.language import chunked\n"
        "from overlayccl_core.strategies.ways import chunk_sums\n\n\n"
        "def program(chunk, p):\n"
        '    c = chunk(0, "input", 0)\n'
        "    chunk_sums.ring(chunk, p)\n"
        '    c.copy(1, "input", 1)\n\n\n'
        'def tried(io, p):\n    io.write("y", chunked(program, io.read("x"), 4))\n'
    )
    with pytest.raises(Rejected, match=r"line 8: .*by reduce in strategies/ways/chunk_sums\.py, line \d+"):
        trace_source(source, "tried", PROBLEM)


def test_a_chunk_that_is_copied_and_one_that_is_elsewhere_stay_fresh() -> None:
    program = run("""
c = chunk(0, "input", 0)
d = c.copy(1, "scratch", 0)
chunk(0, "input", 1).copy(0, "input", 2)
chunk(0, "input", 2).copy(1, "scratch", 1)
c.copy(2, "input", 0)
d.copy(2, "input", 1)
""")
    assert gives(
        program,
        """
x = io.read("x")
first = collective_permute(slice_axis(x, 0, 0, 2), [(0, 2)])
came = select(concat([first, first, slice_axis(x, 0, 4, 4)]), [0, 0, 1, 0])
moved = select(index_select(x, [0, 1, 2, 3, 2, 3, 6, 7]), [1, 0, 0, 0])
io.write("y", add(add(came, moved), select(x, [0, 1, 0, 1])))
""",
    )


# ------------------------------------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ('chunk(4, "input", 0)', r"line 5: rank 4: .*0\.\.3"),
        ('chunk(-1, "input", 0)', "line 5: rank -1"),
        ('chunk(0, "inptu", 0)', "line 5: buffer 'inptu'.*'input' or 'output' or 'scratch'"),
        ('chunk(0, "input", 4)', r"line 5: chunks 4\.\.4 of the input: .*0\.\.3"),
        ('chunk(0, "input", 2, 3)', r"line 5: chunks 2\.\.4"),
        ('chunk(0, "input", -1)', r"line 5: chunks -1\.\.-1"),
        ('chunk(0, "input", 0, 0)', r"line 5: chunks 0\.\.-1"),
        ('chunk(0, "output", 0)', "line 5: chunk 0 of rank 0's output: nothing .*: copy something"),
        ('chunk(0, "scratch", 9, 2)', "line 5: chunk 9 of rank 0's scratch: nothing"),
        ('chunk(0, "scratch", 2 ** 40)', "line 5: chunks 1099511627776"),
        ('chunk("0", "input", 0)', "line 5: .*integers"),
        ('chunk(0, "input", chunk)', "line 5: .*integers"),
        ('chunk(0, "input")', "line 5: .*missing .*'index'"),
        ('chunk(0, "input", 0).copy(0, "output", 4)', r"line 5: chunks 4\.\.4 of the output"),
        ('chunk(0, "input", 0, 2).copy(0, "output", 3)', r"line 5: chunks 3\.\.4 of the output"),
        ('chunk(0, "input", 0).copy(4, "output", 0)', "line 5: rank 4"),
        ('chunk(0, "input", 0).reduce(chunk(1, "input", 0, 2))', "line 5: reduce 1 chunks by 2"),
        ('chunk(0, "input", 0).reduce(3)', "line 5: reduce takes a reference"),
        ('chunk(0, "input", 0)._buffers', "underscore"),
        ('chunk(0, "input", 0).chunks', "line 5: no attribute .chunks of a reference to chunks"),
        ('chunk.copy(0, "input", 0)', "line 5: no attribute .copy of method"),
        ('chunk(0, "input", 0)[0]', "line 5: .*has no items"),
        ('chunk(0, "input", 0) + chunk(0, "input", 1)', r"line 5: .*operators are for integers"),
        ("parallelize(0, lambda: 1)", "line 5: parallelize: parts .*got 0"),
        ("parallelize(65, lambda: 1)", "line 5: parallelize: parts .*got 65"),
        ("parallelize(8, lambda: parallelize(9, lambda: 1))", "line 5: parallelize: parts .*got 9"),
        ("parallelize(2, 3)", "line 5: parallelize: the fragment must be a function"),
        ("parallelize(2, lambda r: r)", "line 5: the function takes r .got 0"),
    ],
)
def test_what_is_out_of_range_is_refused_where_it_is_written(program: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        run(program, results=", 4")


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("chunked(lambda chunk, p: 0, io.read('x'), 3)", "line 5: chunked: .8,. in 3 chunks: .*pad"),
        ("chunked(lambda chunk, p: 0, reshape(io.read('x'), (2, 4)), 4)", "must be flat"),
        ("chunked(lambda chunk, p: 0, io.read('x'), 0)", "parts must be an integer"),
        ("chunked(lambda chunk, p: 0, io.read('x'), 4, 0)", "results must be an integer"),
        ("chunked(lambda chunk, p: 0, io.read('x'), 4, 2 ** 40)", "results must be an integer"),
        ("chunked(lambda chunk: 0, io.read('x'), 4)", "the function takes chunk .got 2"),
        ("chunked(3, io.read('x'), 4)", "must be a function"),
        ("chunked(lambda chunk, p: p.nothing, io.read('x'), 4)", "no parameter p.nothing"),
        ("chunked(lambda chunk, p: chunk(0, 'output', 0), io.read('x'), 4)", "'output': .*in place"),
        ("parallelize(2, lambda: 0)", "stands in a chunk program"),
    ],
)
def test_what_is_no_chunk_program_is_refused(use: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        traced(use, PROBLEM)


def test_references_of_two_programs_do_not_mix() -> None:
    body = """
def outer(chunk, p):
    mine = chunk(0, "input", 0)
    chunked(lambda chunk, p: chunk(1, "input", 0).reduce(mine), io.read("x"), 4)
chunked(outer, zeros((8,)), 4)
"""
    with pytest.raises(Rejected, match="chunks of this program"):
        traced(body, PROBLEM)


# ------------------------------------------------------------------------------------------ everything ends
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ('for i in range(10 ** 6):\n    chunk(0, "input", 0).copy(1, "scratch", 0)', "units of work"),
        ('c = chunk(0, "input", 0)\nfor i in range(10 ** 6):\n    c = c.reduce(c)', "units of work"),
        ('for i in range(10 ** 6):\n    chunk(0, "input", 0, 4)', "units of work"),
        (
            'c = chunk(0, "input", 0, 4)\nfor i in range(2 ** 14):\n    c.copy(0, "scratch", 4 * i)',
            "units of",
        ),
    ],
)
def test_programs_without_end_are_ended(program: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dearer chunks: tests/hostile holds how soon all of the effort is used up."""
    monkeypatch.setattr(chunks, "CHUNK", 40 * chunks.CHUNK)
    with pytest.raises(Rejected, match=said):
        run(program)


def test_results_cost_effort_though_nobody_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 40 * chunks.CHUNK)
    with pytest.raises(Rejected, match="units of work"):
        run('chunk(0, "input", 0).copy(0, "output", 0)', results=", 65536")


def test_sums_of_sums_are_no_more_terms_than_they_are_operations() -> None:
    program = run('c = chunk(0, "input", 0)\nfor i in range(60):\n    c = c.reduce(c)')
    assert len(program.nodes) < 200
