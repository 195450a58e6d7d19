"""HLO read into Programs: proven where it is right, refuted where it is wrong, refused where it computes."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Issue, Read, Write
from overlayccl_core.schedules.hlo import program_of, read_hlo
from tests.schedules.hlo_modules import ALL, MAX, SUM, captured, module, summed, verdict

RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"


def proven(text: str, problem: Problem) -> None:
    found = verdict(text, problem)
    assert found.passed, found.message


def refuted(text: str, problem: Problem, reason: Reason = Reason.WRONG_VALUE) -> None:
    found = verdict(text, problem)
    assert (found.outcome, found.reason) == (Outcome.FAIL, reason)


PLAIN = module(f"%p = f32[2,4] parameter(0)\nROOT %r = f32[2,4] all-reduce(%p), {ALL}, to_apply=%sum", SUM)
SCATTERED = f"""
    %p = f32[8] parameter(0)
    %s = f32[2] reduce-scatter(%p), {ALL}, dimensions={{0}}, to_apply=%sum
    ROOT %r = f32[8] all-gather(%s), {ALL}, dimensions={{0}}
"""


def test_each_collective_is_proven() -> None:
    proven(PLAIN, summed(8))
    proven(module(SCATTERED, SUM), summed(8))
    proven(
        module("%p = f32[8] parameter(0)\nROOT %r = f32[8] all-to-all(%p), channel_id=1, dimensions={0}"),
        captured(("all_to_all", 8)),
    )
    proven(
        module(f"%p = f32[3] parameter(0)\nROOT %r = f32[12] all-gather(%p), {ALL}, dimensions={{0}}"),
        captured(("all_gather", 3)),
    )
    columns = f"""
        %p = f32[2,8] parameter(0)
        %b = f32[8,2] transpose(%p), dimensions={{1,0}}
        %s = f32[2,2] reduce-scatter(%b), {ALL}, dimensions={{0}}, to_apply=%sum
        %t = f32[2,2] transpose(%s), dimensions={{1,0}}
        ROOT %r = f32[2,8] all-gather(%t), {ALL}, dimensions={{1}}
    """
    proven(module(columns, SUM), summed(16))


def test_an_all_to_all_of_operands_gives_one_block_from_each_rank() -> None:
    blocks = "\n".join(f"%b{i} = f32[2] slice(%p), slice={{[{2 * i}:{2 * i + 2}]}}" for i in range(4))
    parts = "\n".join(f"%g{i} = f32[2] get-tuple-element(%e), index={i}" for i in range(4))
    body = f"""
        %p = f32[8] parameter(0)
        {blocks}
        %e = (f32[2], f32[2], f32[2], f32[2]) all-to-all(%b0, %b1, %b2, %b3), channel_id=1
        {parts}
        ROOT %r = f32[8] concatenate(%g0, %g1, %g2, %g3), dimensions={{0}}
    """
    proven(module(body), captured(("all_to_all", 8)))
    refuted(module(body.replace("(%b0, %b1", "(%b1, %b0")), captured(("all_to_all", 8)))


def test_groups_in_two_steps_are_proven_and_wrong_ones_refuted() -> None:
    body = """
        %p = f32[8] parameter(0)
        %a = f32[8] all-reduce(%p), {IDS}, replica_groups={{0,1},{2,3}}, to_apply=%sum
        ROOT %r = f32[8] all-reduce(%a), {IDS}, replica_groups={{0,2},{1,3}}, to_apply=%sum
    """.replace("{IDS}", "channel_id=1, use_global_device_ids=true")
    proven(module(body, SUM), summed(8))
    refuted(module(body.replace("{{0,2},{1,3}}", "{{0,1},{2,3}}"), SUM), summed(8))


def test_replicas_are_ranks_too() -> None:
    text = "HloModule m, replica_count=4\n" + SUM + "ENTRY main {\n  p = f32[8] parameter(0)\n"
    proven(text + "  ROOT r = f32[8] all-reduce(p), replica_groups={}, to_apply=sum\n}\n", summed(8))


COMBINED = f"""
    %p = f32[8] parameter(0)
    %q = f32[3] parameter(1)
    %both = (f32[8], f32[3]) all-reduce(%p, %q), {ALL}, to_apply=%sum
    %x = f32[8] get-tuple-element(%both), index=0
    %y = f32[3] get-tuple-element(%both), index=1
    ROOT %r = (f32[8], f32[3]) tuple(%x, %y)
"""
TWO_SUMS = (("all_reduce_sum", 8), ("all_reduce_sum", 3))


def test_operands_of_one_all_reduce_are_one_call() -> None:
    program = program_of(module(COMBINED, SUM), captured(*TWO_SUMS))
    assert [len(call) for call in program.calls] == [2]
    proven(module(COMBINED, SUM), captured(*TWO_SUMS))


def test_a_result_that_left_the_combined_call_is_refuted() -> None:
    dropped = COMBINED.replace(
        "ROOT %r = (f32[8], f32[3]) tuple(%x, %y)", "ROOT %r = (f32[8], f32[3]) tuple(%x, %q)"
    )
    refuted(module(dropped, SUM), captured(*TWO_SUMS))


def test_starts_are_in_flight_until_their_ends() -> None:
    body = f"""
        %p = f32[8] parameter(0)
        %q = f32[3] parameter(1)
        %a = f32[8] all-reduce-start(%p), {ALL}, to_apply=%sum
        %b = f32[3] all-reduce-start(%q), {ALL}, to_apply=%sum
        %a2 = f32[8] all-reduce-done(%a)
        %b2 = f32[3] all-reduce-done(%b)
        ROOT %r = (f32[8], f32[3]) tuple(%a2, %b2)
    """
    program = program_of(module(body, SUM), captured(*TWO_SUMS))
    assert [type(event) for event in program.events] == [Read, Issue, Read, Issue, Write, Write]
    proven(module(body, SUM), captured(*TWO_SUMS))
    waits = body.replace("%b = ", "%a2 = f32[8] all-reduce-done(%a)\n%b = ", 1).replace(
        "%a2 = f32[8] all-reduce-done(%a)\n        %b2", "%b2"
    )
    program = program_of(module(waits, SUM), captured(*TWO_SUMS))
    assert [type(event) for event in program.events] == [Read, Issue, Write, Read, Issue, Write]
    with pytest.raises(Rejected, match="written before its end"):
        program_of(module(body.replace("tuple(%a2", "tuple(%a"), SUM), captured(*TWO_SUMS))
    early = body.replace("ROOT", "%c = f32[8] copy(%a)\nROOT").replace("tuple(%a2", "tuple(%c")
    with pytest.raises(Rejected, match="between its start and its end"):
        program_of(module(early, SUM), captured(*TWO_SUMS))
    with pytest.raises(Rejected, match="no start"):
        program_of(module(body.replace("done(%a)", "done(%p)"), SUM), captured(*TWO_SUMS))


def test_an_async_call_starts_what_it_wraps() -> None:
    inner = f"""inner {{
  x = f32[8] parameter(0)
  ROOT y = f32[2] reduce-scatter(x), {ALL}, dimensions={{0}}, to_apply=sum
}}
"""
    body = f"""
        %p = f32[8] parameter(0)
        %s = ((f32[8]), f32[2], u32[]) async-start(%p), calls=%inner
        %u = ((f32[8]), f32[2], u32[]) async-update(%s)
        %d = f32[2] async-done(%u)
        %g = (f32[2], f32[8]) all-gather-start(%d), {ALL}, dimensions={{0}}
        ROOT %r = f32[8] all-gather-done(%g)
    """
    proven(module(body, SUM, inner), summed(8))
    sugar = body.replace(
        "async-start(%p), calls=%inner", f"reduce-scatter-start(%p), {ALL}, dimensions={{0}}, to_apply=%sum"
    )
    proven(module(sugar.replace("async-", "reduce-scatter-"), SUM), summed(8))


PACKED = f"""
    %p = f32[2,4] parameter(0)
    %q = f32[3] parameter(1)
    %packed = f32[11] fusion(%p, %q), kind=kLoop, calls=%pack
    %a = f32[11] all-reduce(%packed), {ALL}, to_apply=%sum
    %parts = (f32[2,4], f32[3]) fusion(%a), kind=kLoop, calls=%unpack
    %x = f32[2,4] get-tuple-element(%parts), index=0
    %y = f32[3] get-tuple-element(%parts), index=1
    ROOT %r = (f32[2,4], f32[3]) tuple(%x, %y)
"""
PACK = """pack {
  a = f32[2,4] parameter(0)
  b = f32[3] parameter(1)
  t = f32[4,2] transpose(a), dimensions={1,0}
  flat = f32[8] reshape(t)
  ROOT c = f32[11] concatenate(flat, b), dimensions={0}
}
"""
UNPACK = """unpack {
  a = f32[11] parameter(0)
  b = f32[8] slice(a), slice={[0:8]}
  c = f32[4,2] bitcast(b)
  d = f32[2,4] transpose(c), dimensions={1,0}
  e = f32[3] slice(a), slice={[8:11]}
  ROOT r = (f32[2,4], f32[3]) tuple(d, e)
}
"""


def test_packing_inside_fusions_is_seen_through() -> None:
    proven(module(PACKED, SUM, PACK, UNPACK), captured(*TWO_SUMS))
    refuted(module(PACKED, SUM, PACK, UNPACK.replace("{[8:11]}", "{[7:10]}")), captured(*TWO_SUMS))
    straight = UNPACK.replace("d = f32[2,4] transpose(c), dimensions={1,0}", "d = f32[2,4] bitcast(c)")
    refuted(module(PACKED, SUM, PACK, straight), captured(*TWO_SUMS))


RING_LOOP = (
    """less {
  s = (s32[], f32[2], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
""",
    f"""turn {{
  s = (s32[], f32[2], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  y = f32[8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  z = f32[2] collective-permute(x), channel_id=1, {RING}
  id = u32[] partition-id()
  rank = s32[] convert(id)
  four = s32[] constant(4)
  before = s32[] subtract(rank, next)
  around = s32[] add(before, four)
  from = s32[] remainder(around, four)
  two = s32[] constant(2)
  place = s32[] multiply(from, two)
  w = f32[8] dynamic-update-slice(y, z, place)
  ROOT r = (s32[], f32[2], f32[8]) tuple(next, z, w)
}}
""",
)
RING_ENTRY = """
    %p = f32[2] parameter(0)
    %zero = f32[] constant(0)
    %empty = f32[8] broadcast(%zero), dimensions={}
    %id = u32[] partition-id()
    %two = u32[] constant(2)
    %place = u32[] multiply(%id, %two)
    %first = f32[8] dynamic-update-slice(%empty, %p, %place)
    %none = s32[] constant(0)
    %s = (s32[], f32[2], f32[8]) tuple(%none, %p, %first)
    %w = (s32[], f32[2], f32[8]) while(%s), condition=%less, body=%turn
    ROOT %r = f32[8] get-tuple-element(%w), index=2
"""


def test_a_ring_in_a_loop_is_written_out() -> None:
    text = module(RING_ENTRY, *RING_LOOP)
    program = program_of(text, captured(("all_gather", 2)))
    assert [x.kind for x in program.collectives] == [Kind.COLLECTIVE_PERMUTE] * 3
    proven(text, captured(("all_gather", 2)))
    refuted(text.replace("{2,3},{3,0}", "{2,0},{3,3}"), captured(("all_gather", 2)))
    refuted(text.replace("constant(3)", "constant(2)"), captured(("all_gather", 2)))


def test_a_mean_is_a_scale_and_a_wrong_one_is_refuted() -> None:
    body = f"""
        %p = f32[8] parameter(0)
        %a = f32[8] all-reduce(%p), {ALL}, to_apply=%sum
        %c = f32[] constant(0.25)
        %b = f32[8] broadcast(%c), dimensions={{}}
        ROOT %r = f32[8] multiply(%a, %b)
    """
    proven(module(body, SUM), captured(("all_reduce_avg", 8)))
    refuted(module(body.replace("0.25", "0.125"), SUM), captured(("all_reduce_avg", 8)))


def test_a_maximum_in_the_place_of_a_sum_is_refuted() -> None:
    refuted(PLAIN.replace(SUM, MAX).replace("%sum", "%max"), summed(8), Reason.NOT_LINEAR)


def test_a_sum_over_casts_is_a_sum() -> None:
    cast = SUM.replace(
        "ROOT %add.0 = f32[] add(f32[] %a, f32[] %b)",
        "%c = f64[] convert(%a)\n%d = f64[] convert(%b)\n%e = f64[] add(%c, %d)\nROOT %f = f32[] convert(%e)",
    )
    proven(PLAIN.replace(SUM, cast), summed(8))


COMPUTED = f"""
    %p = f32[8] parameter(0)
    %f = f32[8] fusion(%p), kind=kLoop, calls=%squared
    ROOT %r = f32[8] all-reduce(%f), {ALL}, to_apply=%sum
"""
SQUARED = "squared {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] exponential(x)\n}\n"


def test_a_result_that_depends_on_computing_is_refused_with_the_instruction() -> None:
    with pytest.raises(Rejected, match=r"result\[0\] depends on %y \(line 11\), which computes exponential"):
        program_of(module(COMPUTED, SUM, SQUARED), summed(8))


def test_computing_that_no_result_depends_on_is_listed() -> None:
    beside = COMPUTED.replace("all-reduce(%f)", "all-reduce(%p)")
    reading = read_hlo(module(beside, SUM, SQUARED), summed(8))
    assert reading.besides == ("line 11: %y computes exponential",)
    assert prove(reading.program, catalog.reference_program(summed(8))).passed


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('ROOT %r = f32[8] custom-call(%p), custom_call_target="Mystery"', "calls Mystery"),
        ("ROOT %r = f32[8] multiply(%p, %p)", "multiplies or divides by something other than one number"),
        ("ROOT %r = f32[8] maximum(%p, %p)", "computes maximum"),
        ("%c = f32[8] constant({...})\nROOT %r = f32[8] add(%p, %c)", "leaves out"),
        ("%c = f32[8] constant({1,2,3,4,5,6,7,8})\nROOT %r = f32[8] add(%p, %c)", "constants other than 0"),
        ("%i = s32[8] convert(%p)\nROOT %r = f32[8] convert(%i)", "converts to s32"),
        (f"ROOT %r = f32[8] all-reduce(%p), {ALL}, to_apply=%larger", "reduces by multiply"),
        (
            "%t = f32[3]{0:T(8)} slice(%p), slice={[0:3]}\nROOT %r = f32[8] bitcast(%t)",
            "takes padding of f32[3]",
        ),
        ("ROOT %r = f32[8] conditional(%p), branch_computations={%a,%b}", "computes conditional"),
        (
            "%z = f32[] constant(1)\n%q = f32[9] pad(%p, %z), padding=0_1\n"
            "ROOT %r = f32[8] slice(%q), slice={[1:9]}",
            "pads with",
        ),
    ],
)
def test_what_a_program_has_not_is_named(body: str, says: str) -> None:
    product = SUM.replace("%sum", "%larger").replace(" add(", " multiply(")
    with pytest.raises(Rejected) as refused:
        program_of(module(f"%p = f32[8] parameter(0)\n{body}", product), summed(8))
    assert says in str(refused.value) and "line" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("was", "is_", "says"),
    [
        ("num_partitions=4", "num_partitions=8", "1 x 8 devices"),
        ("f32[2,4]", "f32[2,5]", "line 10: %p: f32[2,5] stands for given[0], which is 8 elements"),
        ("f32[2,4]", "bf16[2,4]", "bf16[2,4] stands for given[0]"),
        ("ROOT %r = f32[2,4]", "ROOT %r = f32[4,2]", "its shape is not what its operands give"),
        ("[1,4]<=[4]", "{{0,1,2}}", "must partition ranks 0..3"),
        ("replica_groups=[1,4]<=[4], ", "", "has no replica_groups"),
        ("to_apply=%sum", "to_apply=%other", "calls other, which this text does not have"),
        ("all-reduce(%p)", "all-reduce(%q)", "uses %q before it is there"),
        ("all-reduce(%p)", "all-reduce(%p, %p)", "its shape is not"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_in_one_line(was: str, is_: str, says: str) -> None:
    assert was in PLAIN
    with pytest.raises(Rejected) as refused:
        program_of(PLAIN.replace(was, is_), summed(8))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_ports_correspond_in_number() -> None:
    with pytest.raises(Rejected, match=r"1 parameters .*the Problem 2 inputs"):
        program_of(PLAIN, captured(*TWO_SUMS))


def test_a_loop_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlayccl_core.schedules.hlo.MAX_STEPS", 500)
    endless = (
        RING_LOOP[1]
        .replace("add(i, one)", "add(i, zero)")
        .replace("one = s32[] constant(1)", "zero = s32[] constant(0)")
    )
    with pytest.raises(Rejected, match="more than 500 instructions"):
        program_of(module(RING_ENTRY, RING_LOOP[0], endless), captured(("all_gather", 2)))


def test_computations_that_call_themselves_are_refused() -> None:
    inner = "again {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] call(x), to_apply=again\n}\n"
    with pytest.raises(Rejected, match="nested deeper"):
        program_of(
            module("%p = f32[8] parameter(0)\nROOT %r = f32[8] call(%p), to_apply=%again", inner), summed(8)
        )
