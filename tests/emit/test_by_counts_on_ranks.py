"""Exchanges whose counts change with every call, on four real ranks, against all_to_all_single with splits."""

from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.case import Case
from tests.emit.deployed_modules import entry, write
from tests.emit.test_deployed_on_ranks import play

pytestmark = pytest.mark.ranks
RANKS, CHUNK, WIDTH = 4, 6, 4
NARROW = 3  # eight of these rows are a chunk
STEPS = [
    [[6, 0, 3, 1], [1, 2, 3, 4], [0, 0, 0, 0], [5, 6, 6, 0]],
    [[1, 1, 1, 1], [0, 0, 7, 0], [2, 2, 2, 2], [3, 0, 0, 1]],  # beyond a chunk: 7
    [[0] * 4] * 4,
    [[6] * 4] * 4,
    [[0, 0, 0, 9], [0, 0, 0, 8], [0, 0, 0, 0], [0, 0, 0, 1]],  # beyond a chunk, of narrow rows too
    [[5, 0, 0, 5], [0, 5, 5, 0], [1, 0, 0, 0], [0, 0, 0, 1]],
]
OF_PAIRS = [[[[7, 1], [0, 2]], [[3, 0], [1, 0]]], [[[6, 0], [0, 6]], [[0, 8], [9, 0]]]]  # by group, by step


def chunks(chunk: int = CHUNK, width: int = WIDTH, dtype: str = "float32") -> Case:
    return catalog.case(
        "uniform_a2a", {"chunk": chunk, "width": width}, ranks=RANKS, ranks_per_node=RANKS, dtype=dtype
    )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """All scenarios, in one launch."""
    folder = tmp_path_factory.mktemp("by_counts")
    pairs = catalog.case(
        "uniform_a2a", {"chunk": CHUNK, "width": WIDTH}, ranks=2, ranks_per_node=2, groups=2, strided=True
    )
    cases = [chunks(), chunks(dtype="bfloat16"), chunks(CHUNK - 1), chunks(24, 64), pairs]
    write(folder, "ring", [entry(case, "permute_ring", backward="native") for case in cases])
    wide, half, small, moe, two = (case.id for case in cases)
    steps = {"width": WIDTH, "steps": [STEPS]}
    return play(folder, {
        "float32": ("stepped", "ring.py", {"case": wide, **steps}),
        "bfloat16": ("stepped", "ring.py", {"case": half, **steps}),
        "narrow": ("stepped", "ring.py", {"case": wide, "width": NARROW, "steps": [STEPS]}),
        "pairs": ("stepped", "ring.py", {"case": two, "width": WIDTH, "steps": OF_PAIRS}),
        "plain": ("stepped_plain", "ring.py", {"case": wide, **steps}),
        "trained": ("trained", "ring.py", {"case": moe}),
        "misused": ("misused", "ring.py", {"case": wide, "other": small, "width": WIDTH}),
    }, worker="by_counts_worker")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "capacity", "overflowed"),
    [("float32", 6, 2), ("bfloat16", 6, 2), ("narrow", 8, 1), ("plain", 6, 2)],
)
def test_values_and_gradients_are_those_of_the_plain_call_bit_by_bit(
    seen: dict[str, list[Any]], name: str, capacity: int, overflowed: int
) -> None:
    for of_rank in seen[name]:
        assert of_rank["same"] == [True] * len(STEPS)
        assert of_rank["capacity"] == capacity
        assert (of_rank["calls"], of_rank["overflowed"]) == (2 * len(STEPS), 2 * overflowed)


def test_two_groups_overflow_each_for_itself(seen: dict[str, list[Any]]) -> None:
    for of_rank in seen["pairs"]:
        assert of_rank["same"] == [True, True] and of_rank["overflowed"] == 2  # there and back of one step


def test_what_fits_goes_by_the_deployed_calls_and_with_plain_nothing_does(seen: dict[str, list[Any]]) -> None:
    fitting = 2 * (len(STEPS) - 2)  # there and back; as many in the backward pass
    for of_rank in seen["float32"]:
        assert of_rank["library"] == {"collective_permute": 3 * fitting, "all_to_all": fitting}
    assert all(of_rank["library"] == {} for of_rank in seen["plain"])


def test_the_layer_of_the_example_is_trained_to_the_same_bits(seen: dict[str, list[Any]]) -> None:
    for of_rank in seen["trained"]:
        assert of_rank["same"] and 0 < of_rank["overflowed"] < of_rank["calls"]


def test_what_does_not_fit_on_one_rank_is_one_error_on_all(seen: dict[str, list[Any]]) -> None:
    name = f"the exchange by counts of {chunks().id}"
    counted = f"ValueError: rank 1: {name} takes 4 counts, none below 0, that sum to the 4 rows; got "
    rows = f"ValueError: rank 1: {name} takes rows (n, 4) torch.float32 on cpu; got "
    wanted = {
        "sum": f"{counted}[2, 2, 2, 2]",
        "negative": f"{counted}[-1, 1, 1, 3]",
        "number": f"{counted}[4]",
        "no counts": f"{counted}no integers",
        "fractions": f"{counted}no integers",
        "width": f"{rows}(4, 3) torch.float32 on cpu",
        "dtype": f"{rows}(4, 4) torch.float64 on cpu",
        "no rows": f"{rows}NoneType",
        "capacity": "RuntimeError: ranks differ in the capacity of an exchange: 6 on rank 0, 5 on rank 1: ",
        "width of one": "RuntimeError: ranks differ in the width of a row: 4 on rank 0, 1 on rank 1",
        "no divisor": f"ValueError: width must divide the 24 elements of {chunks().id} for one rank (got 5)",
        "no number": f"ValueError: width must divide the 24 elements of {chunks().id} for one rank (got 4.0)",
        "known on one": f"RuntimeError: rank 0 runs {name} with gradients, rank 1 runs {name} with agreed counts",
        "flow": f"RuntimeError: rank 0 runs {name} with gradients, rank 1 runs {name}: all ranks",
        "second": f"RuntimeError: {chunks().id} has first derivatives only",
    }
    for of_rank in seen["misused"]:
        for what, message in wanted.items():
            assert of_rank[what].startswith(message), what
        assert of_rank["values"] == WIDTH * sum(range(RANKS))
