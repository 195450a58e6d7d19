"""What XLA made of functions of ours on 8 CPU devices (hlo/make.py): proven, or refuted if spoilt."""

from pathlib import Path

import pytest

from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.schedules.hlo import program_of
from overlayccl_core.schedules.hlo_collectives import collectives
from tests.schedules.hlo_modules import captured, verdict

HERE = Path(__file__).parent / "hlo"
SUM = ("all_reduce_sum", 16)
CALLS: dict[str, tuple[tuple[str, int], ...]] = {
    "all_reduce": (SUM,),
    "mean": (("all_reduce_avg", 16),),
    "two_steps": (SUM,),
    "hierarchical": (SUM,),
    "exchange": (("all_to_all", 16),),
    "merged": (SUM, ("all_reduce_sum", 5), ("all_reduce_sum", 8)),
    "packed": (("all_reduce_sum", 24), ("all_reduce_sum", 5)),
    "ring": (("all_gather", 3),),
    "ring_in_a_loop": (("all_gather", 3),),
    "ring_sum": (("reduce_scatter_sum", 16),),
    "matmul": (SUM,),
}
CALLS |= {f"tpu_{name}": CALLS[name] for name in ("two_steps", "exchange", "packed", "ring")}


def text_of(name: str) -> str:
    return (HERE / f"{name}.hlo").read_text()


def problem_of(name: str) -> Problem:
    return captured(*CALLS[name], ranks=8)


def test_every_text_is_tried() -> None:
    assert {file.stem for file in HERE.glob("*.hlo")} == set(CALLS)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "matmul"])
def test_what_the_compiler_made_is_proven(name: str) -> None:
    found = verdict(text_of(name), problem_of(name))
    assert found.passed, found.message


SPOILT = {
    "a term dropped from the combined sum": (
        "merged",
        [
            ("ROOT %all-reduce = (f32[16]{0}, f32[5]{0}, f32[8]{0})", "%some = (f32[16]{0}, f32[5]{0})"),
            ("(%param.3, %param.4, %param.5)", "(%param.3, %param.4)"),
            (
                "to_apply=%region_0.0\n",
                "to_apply=%region_0.0\n  %a = f32[16] get-tuple-element(%some), index=0\n"
                "  %b = f32[5] get-tuple-element(%some), index=1\n"
                "  ROOT %r = (f32[16], f32[5], f32[8]) tuple(%a, %b, %param.5)\n",
            ),
        ],
    ),
    "a maximum in the place of a sum": ("all_reduce", [(" add(", " maximum(")]),
    "another factor": ("mean", [("constant(0.125)", "constant(0.25)")]),
    "unpacked one element too early": ("packed", [("slice={[24:29]}", "slice={[23:28]}")]),
    "unpacked without its transposition": (
        "packed",
        [("f32[4,6]{0,1} transpose(%bitcast.5), dimensions={1,0}", "f32[4,6]{1,0} reshape(%bitcast.5)")],
    ),
    "packed the other way round": ("packed", [("fusion(%param.3, %param.2)", "fusion(%param.3, %psum.7)")]),
    "groups that do not meet": ("hierarchical", [("{{0,4},{1,5},{2,6},{3,7}}", "{{0,1},{2,3},{4,5},{6,7}}")]),
    "blocks for the wrong ranks": ("exchange", [("slice={[2:4]}", "slice={[4:6]}")]),
    "a wrong pair": ("ring", [("{6,7},{7,0}", "{6,0},{7,7}")]),
    "a wrong pair in a loop": ("ring_in_a_loop", [("{6,7},{7,0}", "{6,0},{7,7}")]),
    "a hop that adds nothing": ("ring_sum", [("fusion(%ppermute.22,", "fusion(%ppermute.21,")]),
    "tiles of another layout": ("tpu_packed", [("bitcast(%reshape.14)", "reshape(%reshape.14)")]),
    "one part padded a place too far": ("tpu_packed", [("padding=0_5", "padding=-1_6")]),
    "the wrong end of a start": (
        "tpu_ring",
        [("done(%collective-permute-start.6)", "done(%collective-permute-start.5)")],
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_fault_in_a_compiled_text_is_found(fault: str) -> None:
    name, edits = SPOILT[fault]
    text = text_of(name)
    for was, becomes in edits:
        assert was in text
        text = text.replace(was, becomes)
    try:
        found = verdict(text, problem_of(name))
    except Rejected:
        assert fault in REFUSED
        return
    reason = Reason.NOT_LINEAR if "maximum" in fault else Reason.WRONG_VALUE
    assert fault not in REFUSED and (found.outcome, found.reason) == (Outcome.FAIL, reason)


REFUSED = {"packed the other way round", "one part padded a place too far"}  # a use before its value, a hole


def test_what_computes_is_refused_with_its_line() -> None:
    with pytest.raises(
        Rejected, match=r"result\[0\] depends on %[\w.]*dot[\w.]* \(line \d+\), which computes dot"
    ):
        program_of(text_of("matmul"), problem_of("matmul"))


@pytest.mark.parametrize(
    ("name", "came_out"),
    [
        ("all_reduce", [("all-reduce", 1, 64)]),
        ("merged", [("all-reduce", 3, 116)]),  # three sums of the script, one call
        ("two_steps", [("reduce-scatter", 1, 64), ("all-gather", 1, 64)]),
        ("tpu_two_steps", [("all-reduce", 1, 64)] * 2),  # for a TPU another compiler made two sums of it
        ("exchange", [("all-to-all", 8, 64)]),
        ("tpu_exchange", [("all-to-all", 1, 64)]),
        ("ring", [("collective-permute", 1, 12)] * 7),
        ("ring_in_a_loop", [("collective-permute", 1, 12)]),
    ],
)
def test_the_collectives_that_came_out_are_listed(name: str, came_out: list[tuple[str, int, int]]) -> None:
    assert [(one.kind, one.operands, one.bytes) for one in collectives(text_of(name))] == came_out
