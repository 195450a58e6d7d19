"""Each function of the files beside this one says that it is honest, or as what and by which checks it is stopped.

A cheat is accepted without the checks that it names, and rejected by each of them alone. `reference` is what all
functions of a file are held to.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates.verdict import ProofCheck, Reason
from overlayccl_core.program import arithmetics, language
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.problem import Problem
from tests.capabilities import library_of, tried
from tests.cheats.judge import assert_stopped, judge
from tests.known_cases import case
from tests.small_problems import exchange, layers

RAGGED = [[1, 4, 2, 2], [3, 1, 5, 1], [2, 2, 2, 6], [1, 1, 3, 1]]
SYMMETRIC = [[1, 4, 2, 2], [4, 1, 5, 1], [2, 5, 2, 6], [2, 1, 6, 1]]
TO_THE_NEXT = [[0, 3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2], [3, 0, 0, 0]]


def sums(ranks: int = 4, width: int = 8) -> Problem:
    return exchange(ranks, {"x": (width,), "z": (width,)}, {"y": (width,)}, width=width)


def handover() -> Problem:
    """x means something on the first half of the ranks, y on the second."""
    problem = exchange(4, {"x": (8,)}, {"y": (8,)})
    return replace(
        problem,
        inputs={p: replace(s, valid=(8, 8, 0, 0)) for p, s in problem.inputs.items()},
        outputs={p: replace(s, valid=(0, 0, 8, 8)) for p, s in problem.outputs.items()},
    )


def stages(schedule: str) -> Problem:
    return catalog.build(case("pp_send_recv", {"microbatches": 3, "shape": [1, 2, 4], "schedule": schedule}))


def sharded() -> Problem:
    backward = catalog.backward(case("fsdp_prefetch", {"microbatches": 3, "layers": 2, "shape": [8, 5]}))
    assert backward is not None
    return backward


def gathered(heads: int) -> Problem:
    return catalog.build(case("ring_kv", {"heads": heads, "sequence": 8, "head_dim": 5}))


def rows(counts: list[list[int]]) -> Problem:
    return catalog.build(case("alltoallv", {"counts": counts, "width": 3}))


def next_ranks() -> Problem:
    return catalog.build(case("all_to_next", {"elements": 8}, ranks_per_node=2))


def lists() -> Problem:
    return exchange(4, dict.fromkeys("abc", (6,)), {f"{name}_sum": (6,) for name in "abc"})


PROBLEMS = {  # of a file, or of one function of it
    "sums": sums(),
    "sums.adds_from_its_own_on": exchange(4, {"x": (8,)}, {"y": (8,)}, equal=("y",)),
    "sums.zeros_if_wide": sums(width=4096),
    "sums.nothing_if_many": sums(ranks=16),
    "moves": handover(),
    "stages": stages("gpipe"),
    "gradients": sharded(),
    "sequences": gathered(heads=3),
    "blocks": catalog.build(case("layer_block_ar")),
    "rows": rows(RAGGED),
    "rows.sends_the_rows_behind_too": rows(TO_THE_NEXT),
    "rows.cuts_the_rows_behind": rows(TO_THE_NEXT),
    "rows.cuts_by_multiplication": rows(TO_THE_NEXT),
    "lists": lists(),
    "nexts": next_ranks(),
    "model": layers(4, 3, 2, (2, 2)),
    "means": exchange(2, {"x": (8,)}, {"y": (8,)}),
}
ELSEWHERE = {  # where it is right: the proof is of the very Program, at its very size
    "sums.zeros_if_wide": sums(width=2),
    "sums.nothing_if_many": sums(ranks=4),
    "sequences.counts_on_one_head": gathered(heads=1),
    "rows.counts_as_if_symmetric": rows(SYMMETRIC),
    "stages.shares_a_buffer": stages("1f1b"),
}
LIMITS: dict[str, dict[str, Any]] = {
    "moves.gathers_everything_many_times": {"memory_budget_bytes": 64 * 1024},
    "moves.calls_what_is_not_there": {
        "capabilities": Capabilities([tried("collective_permute", supported=False, evidence="aborts")])
    },
}
STOPPED = re.compile(r"Stopped as (\w+)(?: by ([\w, ]+))?\.$")


def source_of(file: str) -> str:
    return Path(__file__).with_name(f"{file}.py").read_text()


def said() -> Iterator[tuple[str, str]]:
    """(file.function, its docstring, on one line) of all functions but references."""
    for file in PROBLEMS:
        if "." not in file:
            source = source_of(file)
            for name in functions_of(source):
                if name != "reference":
                    words = re.search(rf'def {name}\(io, p\):\n    """([^"]*)"""', source)
                    yield f"{file}.{name}", " ".join(words[1].split()) if words else ""


SAID = dict(said())
CHEATS = {name: words for name, words in SAID.items() if not words.startswith("Honest: ")}


def asked(name: str) -> tuple[str, str, Problem]:
    file, function = name.split(".")
    return source_of(file), function, PROBLEMS.get(name, PROBLEMS[file])


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_stopped_as_it_says_by_each_check_that_it_names(name: str) -> None:
    found = STOPPED.search(CHEATS[name])
    assert found, f"{name} is neither honest nor stopped"
    reason, checks = Reason[found[1]], [ProofCheck[check] for check in (found[2] or "").split(", ") if check]
    if checks:
        assert_stopped(*asked(name), reason, *checks, **LIMITS.get(name, {}))
    else:
        assert judge(*asked(name)).reason is reason


@pytest.mark.parametrize("name", [name for name in SAID if name not in CHEATS])
def test_an_honest_way_that_looks_like_a_cheat_passes(name: str) -> None:
    verdict = judge(*asked(name))
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("name", ELSEWHERE)
def test_at_another_case_it_is_right(name: str) -> None:
    assert judge(*asked(name)[:2], ELSEWHERE[name]).passed


def test_a_library_that_takes_no_lists() -> None:
    """Cheat: a call that was never tried, of a kind that was. Caught: it is another operation of the table, which
    counts the bytes of all values."""
    by_list = source_of("lists"), "parts_by_one_call", lists()
    refused = judge(*by_list, capabilities=library_of(["all_reduce"]))
    assert refused.reason is Reason.UNSUPPORTED and "all_reduce_coalesced of 72 bytes" in refused.message
    limit = tried("all_reduce_coalesced", payload_bytes=72, supported=False)
    small = Capabilities([tried("all_reduce_coalesced"), limit])
    assert judge(*by_list, capabilities=small).reason is Reason.UNSUPPORTED
    assert judge(*by_list, capabilities=library_of(["all_reduce_coalesced"])).passed


class _Int32(str):
    """An integer type, as if casts to it were allowed."""

    value = "int32"
    bytes = 4


def test_a_detour_through_integers_if_they_were_in_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run in its own dtypes stops it, too."""
    monkeypatch.setattr(language, "dtype_of", lambda name: _Int32(name) if name == "int32" else DType(name))
    monkeypatch.setitem(arithmetics.NUMPY_DTYPES, _Int32("int32"), "int32")  # type: ignore[misc]
    assert_stopped(*asked("means.rounds_to_integers"), Reason.INACCURATE, ProofCheck.NUMERICS)
