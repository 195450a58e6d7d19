"""One primitive for another, and the ways back."""

from collections.abc import Callable

import pytest

from overlayccl_core.program.kinds import Kind
from tests.rewrites.rules.tried import CROSSED, PAIRS, kinds, payloads, refusal, rewritten, traced

Members = tuple[tuple[int, ...], ...]

AR, AG, RS, A2A = Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL
EVERY = (((0, 1, 2, 3),), PAIRS, CROSSED, ((2, 0, 3, 1),))


@pytest.mark.parametrize("groups", EVERY)
@pytest.mark.parametrize(
    ("rule", "call", "size", "made"),
    [
        ("reduce_scatter_all_gather", 'all_reduce(x, "sum", {})', lambda g: 12, [RS, AG]),
        ("reduce_scatter_all_gather", 'all_reduce(slice_axis(x, 0, 0, 5), "sum", {})', lambda g: 5, [RS, AG]),
        ("gather_and_sum", 'all_reduce(x, "sum", {})', lambda g: 12, [AG]),
        ("exchange_and_sum", "reduce_scatter(x, 0, {})", lambda g: 12 // g, [A2A]),
        ("exchange_of_copies", "all_gather(x, 0, {})", lambda g: 12 * g, [A2A]),
    ],
)
def test_one_for_another(
    rule: str, call: str, size: Callable[[int], int], made: list[Kind], groups: Members
) -> None:
    program = traced(f'io.write("y", {call.format(groups)})', size(len(groups[0])))
    assert kinds(rewritten(rule, program)) == made


@pytest.mark.parametrize("groups", EVERY)
@pytest.mark.parametrize(
    ("rule", "body", "made"),
    [
        ("all_reduce_of_parts", "all_gather(reduce_scatter(x, 0, {0}), 0, {0})", [AR]),
        ("all_reduce_of_gather", "reduce_sum(reshape(all_gather(x, 0, {0}), ({1}, -1)), 0)", [AR]),
        ("gather_of_copies", "slice_axis(all_to_all(broadcast(x, 0, {1}), 0, {0}), 0, {2}, 1)", [AG]),
    ],
)
def test_ways_back(rule: str, body: str, made: list[Kind], groups: Members) -> None:
    call = body.format(groups, len(groups[0]), len(groups[0]) - 1)
    program = traced(f'io.write("y", reshape({call}, (-1,)))', 12)
    site_class = _class(program.collectives[-1].kind, groups, program.collectives[-1].depth)
    assert kinds(rewritten(rule, program, "", site_class)) == made


@pytest.mark.parametrize("groups", EVERY)
def test_a_sum_of_what_was_exchanged_is_scattered_sums(groups: Members) -> None:
    g = len(groups[0])
    body = f'io.write("y", reduce_sum(reshape(all_to_all(x, 0, {groups}), ({g}, -1)), 0))'
    new = rewritten("reduce_scatter_of_sum", traced(body, 12 // g), "", _class(A2A, groups, 1))
    assert kinds(new) == [RS]


def _class(kind: Kind, groups: Members, depth: int) -> str:
    name = {((0, 1, 2, 3),): "world", PAIRS: "node"}.get(groups, "other")
    return f"{kind.value}:{name}:{depth}"


def test_padding_goes_with_the_parts() -> None:
    padded = "pad(slice_axis(x, 0, 0, 5), 0, 0, 8)"
    body = f'io.write("y", slice_axis(all_gather(reduce_scatter({padded})), 0, 0, 5))'
    whole = traced('io.write("y", all_reduce(slice_axis(x, 0, 0, 5)))', 5)
    new = rewritten("all_reduce_of_parts", traced(body, 5), "", "all_gather:world:2")
    assert new.value_digest == whole.value_digest
    scaled = traced(body.replace("x, 0, 0, 5), 0", "scale(x, 1, 3), 0, 0, 5), 0"), 5)
    assert payloads(rewritten("all_reduce_of_parts", scaled, "", "all_gather:world:2")) == [5]


def test_parts_of_another_graph_stay() -> None:
    body = 'share = reduce_scatter(x)\nboundary()\nio.write("y", all_gather(share))'
    assert "side conditions" in refusal("all_reduce_of_parts", traced(body, 12), "", "all_gather:world:2")


def test_what_something_else_reads_stays_and_the_sum_is_taken_by_the_library() -> None:
    body = (
        'everybody = all_gather(x)\nio.write("a", everybody)\n'
        'io.write("b", reduce_sum(reshape(everybody, (4, 12)), 0))'
    )
    new = rewritten("all_reduce_of_gather", traced(body, {"a": 48, "b": 12}))
    assert sorted(kinds(new)) == [AG, AR]
