"""The rows of rows.txt: a small Program before a rule, and what is issued after it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.kinds import COLLECTIVES, DType
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.numerics import NumericsClass, loses
from overlayccl_core.program.problem import PortSpec, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.source_check import WORDS
from overlayccl_core.program.text_form import text
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import RuleNumerics, rule
from tests.known_cases import case
from tests.random_programs import drawn
from tests.small_problems import exchange, strategy

TABLE = Path(__file__).with_name("rows.txt").read_text()
GROUPS = {
    "PAIRS": "((0, 1), (2, 3))",
    "CROSSED": "((0, 3), (1, 2))",
    "TURNED": "((2, 0, 3, 1),)",
    "ALONE": "((0,), (1,), (2,), (3,))",
    "ROUND": "[(0, 1), (1, 2), (2, 3), (3, 0)]",
    "SWAPPED": "[(0, 1), (1, 0), (2, 3), (3, 2)]",
}
NONLINEAR = re.compile(r'"max"|\b(reduce_max|exp|sub|pick)\(')
LINE = re.compile(rf"(\w+) = (?:({'|'.join(COLLECTIVES)})\((\w+)(?:, (.*))?\)|.*)  (\w+)\[(\d+)\]")
ROUNDS_AS = {
    RuleNumerics.SAME: {NumericsClass.EXACT},
    RuleNumerics.REORDERED: {NumericsClass.EXACT, NumericsClass.REORDERED},
    RuleNumerics.LOSSY: set(NumericsClass),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Steps, of which the last is the row's own; the text before, and the text after or a refusal."""

    steps: tuple[Step, ...]
    ranks: int
    ranks_per_node: int
    before: str
    after: str

    @property
    def rule(self) -> str:
        """The rule that the row is about."""
        return self.steps[-1][0]

    def check(self) -> None:
        """Compare what the rule gives with the text after, and prove it equal."""
        program = self._before()
        if self.after.startswith("refused"):
            reason = self.after.removeprefix("refused: ")
            said = "side conditions|nothing would change" if reason == "refused" else re.escape(reason)
            with pytest.raises(DoesNotApply, match=said):
                _applied(program, self.steps[-1])
            return
        new = _applied(program, self.steps[-1])
        assert issued(new) == self.after
        assert legality.check(new).passed
        if not program.problem.linear:
            assert _equal_on_reals(new, program)
            return
        verdict = prove(new, program)
        assert verdict.passed, verdict.message
        narrow = loses(program.outputs.values())
        assert narrow or verdict["numerics"] in ROUNDS_AS[rule(self.rule).NUMERICS]

    def _before(self) -> Program:
        if re.fullmatch(r"\w+/\w+", self.before):
            problem, _, way = self.before.partition("/")
            at = case(problem, ranks=self.ranks, ranks_per_node=self.ranks_per_node)
            program = replay(Recipe(base=way), catalog.build(at))
        else:
            program = traced(self.before, ranks=self.ranks, ranks_per_node=self.ranks_per_node)
        for step in self.steps[:-1]:
            program = _applied(program, step)
        return program


def _applied(program: Program, step: Step) -> Program:
    """The step at its class; "": at the only class of the rule's kinds."""
    name, site_class, knob = step
    if not site_class:
        (site_class,) = site_classes(program, rule(name).KINDS)
    return apply(program, (name, site_class, knob))


def traced(before: str, *, ranks: int = 4, ranks_per_node: int = 2) -> Program:
    """`g = all_gather(x); y = slice_axis(g, 0, 0, 5); z = x -> 5, 12`: y, z, w, v, u are written; a value without a
    name is y.

    x has 12 elements of each rank's own, e 12 equal ones; i has 6 equal ids below 16, j 6 of each rank's own.
    `5 of 3/0/0/5`: the elements of an output, and how many of them mean something on each rank.
    """
    for short, members in GROUPS.items():
        before = re.sub(rf"\b{short}\b", members, before)
    body, _, sizes = before.rpartition(" -> ")
    *lines, last = body.split("; ")
    lines.append(last if re.match(r"[yzwvu] = ", last) else f"y = {last}")
    written = [name for name in "yzwvu" if any(line.startswith(f"{name} = ") for line in lines)]
    read = [name for name in "xeij" if name in "xe" or re.search(rf"\b{name}\b", body)]
    problem = _problem(read, dict(zip(written, sizes.split(", "), strict=True)), ranks, ranks_per_node)
    source = [*(f'{name} = io.read("{name}")' for name in read), *lines]
    source += [f'io.write("{name}", {name})' for name in written]
    problem = replace(problem, linear=not NONLINEAR.search(body))
    return trace_source(strategy("\n".join(source), ", ".join(sorted(WORDS))), "tried", problem)


def _problem(read: list[str], written: dict[str, str], ranks: int, ranks_per_node: int) -> Problem:
    counts = {name: size.split(" of ") for name, size in written.items()}
    shapes = {name: (int(size),) for name, (size, *_) in counts.items()}
    problem = exchange(
        ranks, dict.fromkeys(read, (12,)), shapes, equal=("e", "i"), ranks_per_node=ranks_per_node
    )
    ids = PortSpec(shape=(6,), dtype=DType.INT64, within=(0, 15))
    inputs = {
        port: replace(ids, placement=spec.placement) if port[0] in "ij" else spec
        for port, spec in problem.inputs.items()
    }
    valid = {name: tuple(map(int, some[0].split("/"))) for name, (_, *some) in counts.items() if some}
    outputs = {port: replace(spec, valid=valid.get(port[0])) for port, spec in problem.outputs.items()}
    return replace(problem, inputs=inputs, outputs=outputs)


def _equal_on_reals(program: Program, reference: Program) -> bool:
    """Equal on normal numbers of both signs, and on ids: a maximum has no proof modulo a prime."""
    random = np.random.default_rng(0)
    inputs = drawn(program.problem, program.outputs, reference.outputs, draw=random.standard_normal)
    for port, data in inputs.items():
        if program.problem.inputs[port].within:
            inputs[port] = np.floor(np.abs(data) * 6).astype(np.int64) % 16
    got, _ = evaluate(program.outputs, inputs, Double(), program.problem.ranks)
    want, _ = evaluate(reference.outputs, inputs, Double(), program.problem.ranks)
    return all(np.allclose(got[p].on_all(), want[p].on_all(), rtol=1e-12, atol=0) for p in want)


def issued(program: Program) -> str:
    """`all_reduce x, graph g1; all_gather 3`: each collective with its operand and attributes.

    An operand is an input by name, or a number of elements.
    """
    operands, made = {}, []
    for line in map(str.strip, text(program).splitlines()):
        if line.endswith("are one call"):
            made.append("in one call")
        elif match := re.match(r"(\w+) = read ", line):
            operands[match[1]] = match[1]
        elif match := LINE.fullmatch(line):
            name, kind, operand, attributes, dtype, operands[name] = match.groups()
            narrow = dtype if dtype != "f32" else ""
            if kind:
                made.append(", ".join(filter(None, (f"{kind} {operands[operand]}", attributes, narrow))))
    return "; ".join(made) or "nothing"


def rows() -> Iterator[Row]:
    """All rows, in the order of the table."""
    for block in re.sub(r"^#.*\n", "", TABLE, flags=re.MULTILINE).strip().split("\n\n"):
        head, *lines = block.split("\n  ")
        head, _, machine = head.partition(" on ")
        ranks, per_node = map(int, (machine or "4/2").split("/"))
        steps = tuple(map(_step, head.split(" > ")))
        for before, _, after in (line.partition(" => ") for line in lines):
            yield Row(steps=steps, ranks=ranks, ranks_per_node=per_node, before=before, after=after)


def _step(words: str) -> Step:
    rule_and_knob, _, site_class = words.partition(" @")
    name, _, knob = rule_and_knob.partition(" ")
    return name, site_class, knob
