"""Modules of one graph for all ranks: what is printed otherwise, and what that costs. No ranks."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import features
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.program.lowering import lower
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.program.view_plan import Layout, ViewPlan
from tests.backends.torchxla.modules import CALLS, PROBLEMS, all_known_ways, small_case

RANKS = 8


def of(problem: str, library_way: str, *, uniform: bool = True) -> Program:
    return all_known_ways(small_case(problem, RANKS, uniform=uniform))[f"forward {library_way}"]


def plans_of(program: Program) -> list[ViewPlan]:
    return [step.plan for step in lower(program) if step.plan is not None]


def layouts(program: Program) -> list[Layout]:
    return [plan.layout for plan in plans_of(program)]


def counts(program: Program) -> dict[str, float]:
    return {column.name: value for column, value in features(program).items()}


def statements(source: str) -> str:
    """The text of the generator."""
    return source[source.index("def forward") :]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_plan_has_slices_of_each_rank_and_where_none_had_any_nothing_changes(problem: str) -> None:
    usually = all_known_ways(small_case(problem, RANKS, uniform=False))
    for name, program in all_known_ways(small_case(problem, RANKS)).items():
        plans = plans_of(program)
        assert not any(plan.slices_differ for plan in plans), name
        others = plans_of(usually[name])
        assert len(others) == len(plans), name
        for usual in [plan for plan in others if plan not in plans]:  # attention is made in another order
            others.remove(usual)
            changed = next(plan for plan in plans if plan not in others and plan.layout is Layout.ROWS)
            plans.remove(changed)
            assert usual.slices_differ, name


def test_rows_of_each_rank_are_picked_by_wide_rows_and_cost_what_a_gather_costs() -> None:
    programs = [of("uniform_a2a", "gather_slice", uniform=uniform) for uniform in (False, True)]
    assert [layouts(program) for program in programs] == [[Layout.RADIX], [Layout.ROWS]]
    [plan] = plans_of(programs[1])
    assert plan.width == 3 * 5 and plan.rows[2] == tuple((2 + RANKS * k, 1) for k in range(RANKS))
    usual, uniform = map(counts, programs)
    assert usual["strided.count"] == uniform["gather.count"] == 1 and "strided.count" not in uniform
    assert uniform["gather.runs"] == RANKS


def test_an_alias_of_each_ranks_own_takes_memory_as_picked_rows() -> None:
    usual, uniform = (of("pp_send_recv", "gather_take", uniform=uniform) for uniform in (False, True))
    assert Layout.ALIAS in layouts(usual)
    assert peak_bytes(uniform) == peak_bytes(usual) + 35 * 4


def test_statements_name_no_rank_change_no_value_and_cut_graphs() -> None:
    for problem in PROBLEMS:
        for name, program in all_known_ways(small_case(problem, RANKS)).items():
            source = emit(program, calls=CALLS)
            text = source[source.index(f"def {name.split()[0]}():") :]
            for word in ("rank", "join(", ".clone()", ".mul_(", ".div_(", "out="):
                assert word not in text, (problem, name, word)
    developer = statements(emit(of("tp_mlp", "developer"), calls=CALLS))
    assert developer.count("    boundary()\n") == 3 and "# ----" not in developer


def test_the_first_id_of_a_rank_is_a_tensor() -> None:
    source = emit(of("dist_ce", "three_all_reduce"), calls=CALLS)
    assert "start_0 = torch.tensor([rank * 10]).to(device)" in source
    assert ", targets - start_0, 0, 10)" in statements(source)


def test_zeros_among_pieces_are_joined_and_not_written() -> None:
    fields = {"sizes": [5, 16, 1, 7]}
    case = catalog.case("grad_ar", fields, ranks=4, ranks_per_node=4, uniform=True)
    source = emit(all_known_ways(case)["forward reduce_scatter_all_gather"], calls=CALLS)
    assert "gradient_0.new_zeros(3)," in statements(source)
