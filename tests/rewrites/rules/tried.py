"""One rule at one small Program: what it gives, proven equal and legal, or why it does not apply."""

from collections.abc import Mapping

import numpy as np
import pytest

from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.rule import DoesNotApply, rule
from tests.random_programs import drawn, equal_over_elements
from tests.small_problems import exchange, strategy

WORDS = (
    "add, all_gather, all_reduce, all_to_all, boundary, broadcast, cast, collective_permute, concat, index_select,"
    " pad, permute_dims, reduce_max, reduce_scatter, reduce_sum, reshape, scale, select, slice_axis, split"
)
PAIRS = ((0, 1), (2, 3))
CROSSED = ((0, 3), (1, 2))


def traced(
    body: str,
    outputs: Mapping[str, int] | int,
    *,
    ranks: int = 4,
    ranks_per_node: int = 2,
    dtype: DType = DType.FLOAT32,
    linear: bool = True,
) -> Program:
    """A strategy that reads x (12 elements of each rank's own) and e (12 that are equal), and writes y."""
    sizes = {"y": outputs} if isinstance(outputs, int) else outputs
    problem = exchange(
        ranks,
        {"x": (12,), "e": (12,)},
        {name: (size,) for name, size in sizes.items()},
        equal=("e",),
        ranks_per_node=ranks_per_node,
        dtype=dtype,
        linear=linear,
    )
    lines = f'x = io.read("x")\ne = io.read("e")\n{body}'
    return trace_source(strategy(lines, WORDS), "tried", problem)


def rewritten(name: str, program: Program, knob: str = "", site_class: str = "") -> Program:
    """The rule applied at the class (the only one if none is given); proven equal where that is possible."""
    site_class = site_class or only_class(name, program)
    new = apply(program, (name, site_class, knob))
    assert legality.check(new).passed or not program.problem.linear
    if program.problem.linear:
        assert equal_over_elements(new, program)
        verdict = prove(new, program)
        assert verdict.passed, verdict.message
    else:
        assert equal_on_reals(new, program)
    return new


def refusal(name: str, program: Program, knob: str = "", site_class: str = "") -> str:
    """The message with which the rule does not apply."""
    with pytest.raises(DoesNotApply) as error:
        apply(program, (name, site_class or only_class(name, program), knob))
    return str(error.value)


def only_class(name: str, program: Program) -> str:
    """The class of the kinds that the rule looks at, if there is one only."""
    (name_of_class,) = site_classes(program, rule(name).KINDS)
    return name_of_class


def kinds(program: Program) -> list[Kind]:
    """What is issued."""
    return [x.kind for x in program.collectives]


def payloads(program: Program) -> list[int]:
    """Elements of what each collective reads."""
    return [x.operands[0].size for x in program.collectives]


def equal_on_reals(program: Program, reference: Program) -> bool:
    """Equal on normal numbers of both signs: a maximum has no proof modulo a prime."""
    random = np.random.default_rng(0)
    inputs = drawn(program.problem, program.outputs, reference.outputs, draw=random.standard_normal)
    got, _ = evaluate(program.outputs, inputs, Double(), program.problem.ranks)
    want, _ = evaluate(reference.outputs, inputs, Double(), program.problem.ranks)
    return all(np.allclose(got[p].on_all(), want[p].on_all(), rtol=1e-12, atol=0) for p in want)
