"""The shipped chunk programs: right at every number of ranks, refuted when a line is wrong, and short."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Kind, NotApplicable, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.ways import ways_of
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.small_problems import exchange, traced

SUM, EXCHANGE, NEXT = "sums.{}([x], p)[0]", "chunked_exchanges.{}(x, p)", "nexts.{}(x, p)"
WAYS = {
    "ring_in_chunks": SUM,
    "all_pairs_in_chunks": SUM,
    "hierarchical_in_chunks": SUM,
    "two_step_in_chunks": EXCHANGE,
    "scattered_in_chunks": NEXT,
}
TIERED = ("hierarchical_in_chunks", "two_step_in_chunks", "scattered_in_chunks")
RIGHT = {
    SUM: "all_reduce(x)",
    EXCHANGE: "all_to_all(x)",
    NEXT: "collective_permute(x, [(r, (r + 1) % p.ranks) for r in range(p.ranks if p.round else p.ranks - 1)])",
}
SIZES = [(n, n) for n in range(2, 9)] + [(4, 2), (6, 2), (6, 3), (8, 2), (8, 4), (9, 3), (4, 1)]
PROGRAMS = {
    "ring": "chunk_sums",
    "all_pairs": "chunk_sums",
    "hierarchical": "chunk_sums",
    "_two_step": "chunked_exchanges",
    "_scattered": "nexts",
}
MOST_LINES = 15


def problem_of(ranks: int, ranks_per_node: int, round_: int = 0) -> Problem:
    """A buffer that divides by no number of ranks but for exchanges."""
    shape = (3 * ranks,)
    return exchange(ranks, {"x": shape}, {"y": shape}, ranks_per_node=ranks_per_node, round=round_)


def program_of(way: str, problem: Problem, texts: dict[str, str] | None = None) -> Program:
    """A way as a strategy; texts: other texts of files of ways."""
    call = WAYS[way].format(way)
    source = (
        f"from overlayccl_core.strategies.ways import {call.split('.')[0]}\n\n\n"
        f'def tried(io, p):\n    x = io.read("x")\n    io.write("y", {call})\n'
    )
    mine = texts or {}
    return trace_source(
        source, "tried", problem, lambda name: (mine[name],) if name in mine else ways_of(name)
    )


def is_right(program: Program, way: str) -> bool:
    body = f'x = io.read("x")\nio.write("y", {RIGHT[WAYS[way]]})'
    return prove(program, traced(body, program.problem)).outcome is Outcome.PASS


@pytest.mark.parametrize("round_", [0, 1])
@pytest.mark.parametrize(("ranks", "ranks_per_node"), SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_a_chunk_program_is_right_at_every_number_of_ranks(
    way: str, ranks: int, ranks_per_node: int, round_: int
) -> None:
    if round_ and WAYS[way] != NEXT:
        return
    problem = problem_of(ranks, ranks_per_node, round_)
    if way in TIERED and ranks == ranks_per_node:
        with pytest.raises(NotApplicable, match="one tier"):
            program_of(way, problem)
        return
    program = program_of(way, problem)
    assert {x.kind for x in program.collectives} == {Kind.COLLECTIVE_PERMUTE}
    assert is_right(program, way)


# ------------------------------------------------------------------------------------------ what they call
@pytest.mark.parametrize(
    ("way", "ranks", "ranks_per_node", "permutes", "depth"),
    [
        ("ring_in_chunks", 8, 8, 2 * 7, 2 * 7),
        ("all_pairs_in_chunks", 8, 8, 2 * 7, 2),
        ("hierarchical_in_chunks", 8, 4, 2 * (3 + 1), 4),
        ("two_step_in_chunks", 8, 4, 3 + 1, 2),
        ("scattered_in_chunks", 4, 2, 1 + 1 + 1 + 1 + 1, 2),
    ],
)
def test_how_many_permutes_it_takes_in_how_many_steps(
    way: str, ranks: int, ranks_per_node: int, permutes: int, depth: int
) -> None:
    program = program_of(way, problem_of(ranks, ranks_per_node))
    assert (len(program.collectives), max(x.depth for x in program.collectives)) == (permutes, depth)


def test_between_nodes_a_rank_sends_one_message_to_each_node() -> None:
    program = program_of("two_step_in_chunks", problem_of(9, 3))
    across = [x for x in program.collectives if any(s // 3 != r // 3 for r, s in enumerate(x.sources))]
    assert len(across) == 2 and {x.size for x in across} == {3 * 3}


def test_all_pairs_are_the_exchange_by_a_ring_of_permutes_done_twice() -> None:
    """One Program, however it is written: it is listed once."""
    problem = catalog.build(case("tp_mlp"))
    one, other = (replay(Recipe(base=way), problem) for way in ("all_pairs_in_chunks", "permute_ring_twice"))
    assert one.value_digest == other.value_digest


@pytest.mark.parametrize("way", ["ring_in_chunks", "all_pairs_in_chunks"])
def test_of_more_ranks_than_can_hold_something_of_each_there_is_none(way: str) -> None:
    with pytest.raises(NotApplicable, match="too many ranks"):
        program_of(way, problem_of(65, 65))


# ------------------------------------------------------------------------------------------ planted mistakes
MISTAKES = [
    ("ring_in_chunks", "range(2, n + 1)", "range(2, n)", "differs"),
    ("ring_in_chunks", "range(1, n)", "range(1, n - 1)", "differs"),
    ("ring_in_chunks", "(i + 1) % n", "i % n", "differs"),
    ("all_pairs_in_chunks", "range(1, p.world_size)", "range(2, p.world_size)", "differs"),
    (
        "all_pairs_in_chunks",
        'copy(destination, "input", rank)',
        'copy(destination, "input", destination)',
        "differs",
    ),
    ("hierarchical_in_chunks", "of_nodes + of_ranks:", "of_nodes:", "differs"),
    ("hierarchical_in_chunks", "of_ranks + of_nodes:", "of_nodes + of_ranks:", "differs"),
    ("two_step_in_chunks", "+ source % size)", "+ destination % size)", "nothing has been written there"),
    ("two_step_in_chunks", "sender // size * size)", "node * size)", "differs"),
    ("scattered_in_chunks", 'copy(following, "output", place)', 'copy(following, "output", 0)', "differs"),
    ("scattered_in_chunks", '+ place, "scratch", 1)', '+ place, "scratch", 0)', "right"),
]


@pytest.mark.parametrize(("way", "line", "mistake", "says"), MISTAKES)
def test_a_mistake_in_a_line_is_refused_or_refuted(way: str, line: str, mistake: str, says: str) -> None:
    """But for the last, which is none: a node's way out and its way in do not meet."""
    file = next(file for program, file in PROGRAMS.items() if way.startswith(program.removeprefix("_")))
    (text,) = ways_of(file)
    assert line in text
    try:
        program = program_of(way, problem_of(6, 3), {file: text.replace(line, mistake)})
    except Rejected as error:
        assert says in str(error), error
        return
    assert is_right(program, way) is (says == "right") and says in ("differs", "right")


# ------------------------------------------------------------------------------------------ lines
def lines_of(name: str, file: str) -> int:
    """Lines of a chunk program with code, from its `def` on; a docstring is none."""
    (text,) = ways_of(file)
    tree = ast.parse(text)
    function = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == name)
    body = function.body[1:] if ast.get_docstring(function) else function.body
    code = [text.splitlines()[i - 1 : s.end_lineno] for s in body for i in [s.lineno]]
    return 1 + sum(
        bool(line.strip()) and not line.strip().startswith("#") for lines in code for line in lines
    )


def test_the_docs_state_the_lines_of_each_chunk_program() -> None:
    docs = (Path(__file__).parents[2] / "docs/strategies.md").read_text()
    stated = {name: int(lines) for name, lines in re.findall(r"^\| .*`(\w+)` of .*? \| (\d+) \|", docs, re.M)}
    counted = {name: lines_of(name, file) for name, file in PROGRAMS.items()}
    print("\nlines of chunk programs:", ", ".join(f"{name} {lines}" for name, lines in counted.items()))
    assert stated == counted and max(counted.values()) <= MOST_LINES


def test_the_example_of_the_docs_is_traced_and_proven() -> None:
    blocks = (Path(__file__).parents[2] / "docs/strategies.md").read_text().split("```python\n")[1:]
    written = next(block.split("```")[0] for block in blocks if "def all_pairs" in block)
    problem = catalog.build(case("grad_ar"))
    program = trace_source(written, "in_two_steps", problem)
    assert prove(program, catalog.reference_program(problem)).outcome is Outcome.PASS
    assert Counter(x.kind.value for x in program.collectives) == {"collective_permute": 4 * 2 * 3}
