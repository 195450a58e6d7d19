"""HLO's grammar: what is read, what is refused with its line, and the collectives of a text."""

import pytest

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.schedules.hlo_collectives import (
    Collective,
    collectives,
    groups_as_written,
    groups_of_ranks,
    pairs_of_ranks,
)
from overlayccl_core.schedules.hlo_text import ArrayShape, Instruction, parse
from tests.schedules.hlo_modules import ALL, SUM, module

WORLD = ((0, 1, 2, 3),)


def one(attributes: str, opcode: str = "all-reduce", more: str = "") -> tuple[Instruction, str]:
    text = module(
        f"""
        p = f32[8] parameter(0)
        ROOT r = f32[8] {opcode}(p), {attributes}, to_apply=sum
        """,
        SUM,
        more=more,
    )
    return parse(text).entry.root, text


def test_types_marks_comments_and_line_ends_do_not_matter() -> None:
    spelled = [
        "(f32[8]{0}, f32[8]{0}) all-reduce(f32[8]{0} %p, f32[8]{0} %q), replica_groups={{0,1,2,3}}, to_apply=%sum",
        "(f32[8], f32[8]) all-reduce(p, q), replica_groups={{0,1,2,3}}, to_apply=sum",
        '(f32[8], /*index=1*/f32[8]) all-reduce(%p, /*index=1*/%q), metadata={op_name="a(\\"b}"},'
        " replica_groups={{0,1,\n  2,3}},\n  to_apply=%sum",
    ]
    read = [
        parse(module(f"%p = f32[8] parameter(0)\n%q = f32[8] parameter(1)\nROOT %r = {x}", SUM))
        for x in spelled
    ]
    for made in read:
        root = made.entry.root
        assert (root.opcode, root.operands, root.called) == ("all-reduce", ("p", "q"), ("sum",))
        assert [x.argument for x in made.entry.parameters] == ["0", "1"]
        assert groups_as_written(root) == [WORLD[0]]
        assert root.shape == (ArrayShape(dtype="f32", dims=(8,), minor_to_major=(0,)),) * 2


def test_tables_of_sources_and_ends_of_threads_are_passed_over() -> None:
    text = module("ROOT p = f32[8] parameter(0)", SUM.replace("\n}", '\n}, execution_thread="other"'))
    head, rest = text.split("\n", 1)
    tables = 'FileNames\n1 "a.py"\n\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n'
    made = parse(f"{head}\n\n{tables}\n{rest}")
    assert set(made.computations) == {"sum", "main"}
    assert (made.partitions, made.replicas) == (4, 1)


def test_memory_is_read_off_a_layout() -> None:
    [shape] = [
        parse(module(f"ROOT p = {x} parameter(0)")).entry.root.shape
        for x in ("f32[2,3]{0,1:T(8,128)(2,1)S(1)}",)
    ]
    assert shape == ArrayShape(dtype="f32", dims=(2, 3), minor_to_major=(0, 1), tiles=((8, 128), (2, 1)))


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("{{0,1},{2,3}}", [(0, 1), (2, 3)]),
        ("{{0,2},{1,3}}", [(0, 2), (1, 3)]),
        ("{}", []),
        ("[2,2]<=[4]", [(0, 1), (2, 3)]),
        ("[2,2]<=[2,2]T(1,0)", [(0, 2), (1, 3)]),
        ("[2,4]<=[2,2,2]T(1,0,2)", [(0, 1, 4, 5), (2, 3, 6, 7)]),
        ("mesh['a'=2,'b'=4] {'b'}", [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("mesh['a'=2,'b'=4] {'a'}", [(0, 4), (1, 5), (2, 6), (3, 7)]),
        ("mesh['a'=2,'b'=1] {'a','b'}", [(0, 1)]),
        ("mesh['a'=8] {'a':(2)2}", [(0, 2), (1, 3), (4, 6), (5, 7)]),
        ("mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}", [(0, 2), (1, 3)]),
    ],
)
def test_groups_are_read_in_every_form(written: str, groups: list[tuple[int, ...]]) -> None:
    assert groups_as_written(one(f"replica_groups={written}")[0]) == groups


@pytest.mark.parametrize(
    "written", ["{{0,1}", "<=[4]", "mesh['a'=2] {'b'}", "mesh['a'=2,'b'=2] {'b','a'}", "flat"]
)
def test_groups_in_no_known_form_are_refused(written: str) -> None:
    with pytest.raises(Rejected, match="line"):
        groups_as_written(one(f"replica_groups={written}")[0])


@pytest.mark.parametrize(
    ("opcode", "attributes", "groups"),
    [  # 2 replicas of 4 partitions
        ("all-reduce", "replica_groups={}", [(0, 4), (1, 5), (2, 6), (3, 7)]),
        ("all-reduce", "replica_groups={{0},{1}}", [(r,) for r in range(8)]),
        ("all-reduce", "replica_groups={{0,1}}, channel_id=1", [tuple(range(8))]),
        (
            "all-reduce",
            "replica_groups={{0,2},{1,3},{4,6},{5,7}}, channel_id=1, use_global_device_ids=true",
            [(0, 2), (1, 3), (4, 6), (5, 7)],
        ),
        ("all-to-all", "replica_groups={{0,1},{2,3}}, channel_id=1", [(0, 1), (4, 5), (2, 3), (6, 7)]),
        ("all-to-all", "replica_groups={{1,0}}", [(4, 0), (5, 1), (6, 2), (7, 3)]),
    ],
)
def test_groups_mean_ranks_by_channel_and_ids(
    opcode: str, attributes: str, groups: list[tuple[int, ...]]
) -> None:
    x, text = one(attributes, opcode, ", replica_count=2")
    assert sorted(groups_of_ranks(x, parse(text))) == sorted(groups)


def test_pairs_mean_partitions_with_a_channel_and_replicas_without() -> None:
    pairs = "source_target_pairs={{0,1},{1,0}}"
    x, text = one(pairs, "collective-permute", ", replica_count=2")
    assert pairs_of_ranks(x, parse(text)) == [(0, 4), (4, 0), (1, 5), (5, 1), (2, 6), (6, 2), (3, 7), (7, 3)]
    x, text = one(f"{pairs}, channel_id=1", "collective-permute", ", replica_count=2")
    assert pairs_of_ranks(x, parse(text)) == [(0, 1), (1, 0), (4, 5), (5, 4)]


@pytest.mark.parametrize("written", ["{{0,1},{}}", "{{0,1,2}}", "{0,1}", "next"])
def test_pairs_in_no_known_form_are_refused(written: str) -> None:
    x, text = one(f"source_target_pairs={written}", "collective-permute")
    with pytest.raises(Rejected, match="source_target_pairs"):
        pairs_of_ranks(x, parse(text))


def test_collectives_are_listed_with_what_is_in_flight() -> None:
    text = module(
        f"""
        p = f32[8] parameter(0)
        q = bf16[2,8] parameter(1)
        zero = f32[] constant(0)
        a = f32[8] all-reduce-start(p), {ALL}, to_apply=sum
        b = (bf16[2,8], bf16[2,32]) all-gather-start(q), {ALL}, dimensions={{1}}
        c = ((f32[8]), f32[8]) async-start(p), calls=permuted
        a2 = f32[8] all-reduce-done(a)
        c2 = f32[8] async-done(c), calls=permuted
        d = (f32[8], f32[]) all-reduce(a2, zero), {ALL}, to_apply=sum
        b2 = bf16[2,32] all-gather-done(b)
        ROOT r = (f32[8], bf16[2,32]) tuple(c2, b2)
        """,
        SUM,
        "permuted {\n  x = f32[8] parameter(0)\n"
        "  ROOT y = f32[8] collective-permute(x), source_target_pairs={{0,1},{1,0}}\n}\n",
    )
    found = collectives(text)
    assert found == [
        Collective(kind="all-reduce", dtype="f32", bytes=32, operands=1, groups=WORLD),
        Collective(kind="all-gather", dtype="bf16", bytes=128, operands=1, groups=WORLD),
        Collective(kind="collective-permute", dtype="f32", bytes=32, operands=1, groups=((0, 1), (1, 0))),
        Collective(kind="all-reduce", dtype="f32", bytes=32, operands=1, groups=WORLD),
    ]
    assert [x.in_flight for x in found] == [0, 1, 2, 1]


GOOD = module("ROOT p = f32[8] parameter(0)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "HloModule"),
        ("<algo/>", "HloModule"),
        ("HloModule m\n", "ENTRY"),
        ("HloModule m\nwhat is this\n", "line 2: no HLO"),
        (GOOD[: GOOD.rindex("}")], "cut off"),
        (GOOD.replace("f32[8]", "f32[<=8]"), "line 5: a dimension"),
        (GOOD.replace("parameter(0)", "parameter(a)"), "line 5"),
        (GOOD.replace("parameter(0)", "parameter(0"), "line 5: a bracket is not closed"),
        (GOOD.replace("f32[8]", "(" * 10_000), "line 5: no shape"),
        (GOOD.replace("f32[8] parameter(0)", "f32[8]"), "line 5: no operation"),
        (GOOD.replace("ROOT p", "p = f32[8] parameter(1)\nROOT p"), "line 6: %p: is there twice"),
        (GOOD + GOOD.split("\n", 2)[2], "a second computation %main"),
        (GOOD.replace("{\n", "{\n  loose words\n"), "line 5: no instruction"),
    ],
)
def test_what_is_no_module_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse(text)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_text_too_long_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlayccl_core.schedules.hlo_text.MAX_CHARACTERS", 100)
    with pytest.raises(Rejected, match="limit 100"):
        parse(GOOD + " " * 100)
