"""Ids of Cases: readable, and one for each Case that a configuration names."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import case_of, cases_of
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.program.case import Case

Entry = dict[str, Any]

DEPLOYMENT = Deployment(
    name="some",
    backend="torchdist",
    library="gloo",
    ranks=8,
    ranks_per_node=4,
    tiers=(Tier(name="node", ranks=4), Tier(name="all", ranks=8)),
    memory_budget_bytes=2**30,
)


def gathered(problem: str, entries: Sequence[Entry], trained: Sequence[str] = ()) -> list[Case]:
    part = {"cases": {problem: list(entries)} if entries else {}, "models": list(trained)}
    return cases_of(Settings.from_part(json.dumps(part)), DEPLOYMENT, problem)


def plain(problem: str, entry: Entry) -> Case:
    return case_of(problem, entry, DEPLOYMENT)


def nameless(found: Sequence[Case]) -> list[Case]:
    return [replace(case, name="") for case in found]


def test_sizes_of_one_count_and_sum_are_two_cases() -> None:
    first, second = gathered("grad_ar", [{"sizes": [1000, 2000]}, {"sizes": [1500, 1500]}])
    assert (first["sizes"], second["sizes"]) == ((1000, 2000), (1500, 1500))
    assert first.id != second.id
    for case in (first, second):
        head, digest, tail = case.id.rsplit("-", 2)
        assert (
            (head, tail) == ("grad_ar/n8-r4-t2-11.7KiB", "f32") and len(digest) == 6 and int(digest, 16) >= 0
        )


def test_an_entry_beside_a_model_of_the_same_count_and_sum_is_not_dropped() -> None:
    (trained,) = gathered("grad_ar", [], ["nano-dp"])
    sizes = list(trained["sizes"])
    kept, added = gathered("grad_ar", [{"sizes": sizes[::-1], "overlap": True}], ["nano-dp"])
    assert kept == trained and kept.id == "grad_ar/n8-r4-t27-3.5MiB-overlap-f32"
    assert added.id.startswith("grad_ar/n8-r4-t27-3.5MiB-overlap-") and added["sizes"] == tuple(sizes[::-1])
    assert gathered("grad_ar", [{"sizes": sizes, "overlap": True}], ["nano-dp"]) == [trained]


SUMS = st.fixed_dictionaries(
    {
        "microbatches": st.integers(1, 2),
        "layers": st.integers(1, 2),
        "shape": st.sampled_from([[1, 4, 8], [1, 8, 4], [4, 8], [2, 2, 8], [2, 4, 8]]),
    },
    optional={"site": st.sampled_from(["exit", "entry"])},
)
OF_PROBLEM = {
    "tp_mlp": SUMS,
    "layer_block_ar": SUMS,
    "grad_ar": st.fixed_dictionaries(
        {"sizes": st.lists(st.sampled_from([500, 1000, 1500, 2000]), min_size=1, max_size=3)},
        optional={"overlap": st.booleans()},
    ),
    "uniform_a2a": st.fixed_dictionaries(
        {"chunk": st.sampled_from([1, 2, 4]), "width": st.sampled_from([4, 8, 16])}
    ),
    "ring_kv": st.fixed_dictionaries(
        {
            "heads": st.integers(1, 2),
            "sequence": st.sampled_from([8, 16]),
            "head_dim": st.sampled_from([4, 8, 16]),
        }
    ),
    "fsdp_prefetch": st.fixed_dictionaries(
        {
            "microbatches": st.integers(1, 2),
            "layers": st.integers(1, 2),
            "shape": st.sampled_from([[8, 16], [16, 8], [8, 32], [16, 16]]),
        },
        optional={
            "shards": st.sampled_from(["rows", "columns"]),
            "site": st.sampled_from(["gather", "regather"]),
        },
    ),
}
PLACED = st.fixed_dictionaries(
    {},
    optional={
        "ranks": st.sampled_from([2, 4, 8]),
        "strided": st.booleans(),
        "dtype": st.sampled_from(["float32", "bfloat16", "float16", "float64"]),
    },
)


@pytest.mark.parametrize("problem", list(OF_PROBLEM))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_different_cases_have_different_ids(problem: str, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.tuples(OF_PROBLEM[problem], PLACED), min_size=2, max_size=8))
    entries = list(
        {plain(problem, entry): entry for entry in ({**own, **placed} for own, placed in drawn)}.values()
    )
    alone = [plain(problem, entry) for entry in entries]
    found = gathered(problem, entries)
    assert nameless(found) == nameless(alone)
    assert len({case.id for case in found}) == len(found)
    readable = [case.id for case in alone]
    for case, name in zip(found, readable, strict=True):
        assert (case.id == name) == (readable.count(name) == 1)
    assert {case.id for case in gathered(problem, entries[::-1])} == {case.id for case in found}


def test_a_case_with_a_digest_comes_back_from_its_row_and_is_no_smaller_than_itself() -> None:
    for case in gathered(
        "grad_ar", [{"sizes": [1000, 2000], "ranks": 2}, {"sizes": [1500, 1500], "ranks": 2}]
    ):
        row = {
            "uniform": case.uniform,
            **case.to_json(),
            "case": case.id,
            "parameters": json.dumps(dict(case.parameters)),
        }
        assert catalog.case_from_row(row) == case
        assert catalog.proxy(case) is None


def test_two_models_with_different_cases_of_one_id_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nano = models.load("nano")
    turned = nano.changed(name="turned", batch=2 * nano.batch, sequence=nano.sequence // 2)
    known: dict[str, Model] = {"nano": nano, "turned": turned}
    monkeypatch.setattr(models, "load", lambda name, folder: known[name])
    with pytest.raises(ValueError, match=r"nano.*turned.*tp_mlp/n8-r4-m1-l8-256KiB-entry-f32"):
        gathered("tp_mlp", [], ["nano", "turned"])


def test_two_entries_whose_digests_are_equal_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "told_apart", lambda case: replace(case, name=f"{case.name}-0"))
    with pytest.raises(ValueError, match=r"entry 1.*entry 2.*one id"):
        gathered("grad_ar", [{"sizes": [1000, 2000]}, {"sizes": [1500, 1500]}])


def test_an_entry_that_is_there_twice_is_named_with_the_other() -> None:
    entry = {"sizes": [1000, 2000]}
    with pytest.raises(ValueError, match=r"entry 3: .*as .*entry 1"):
        gathered("grad_ar", [entry, {"sizes": [5]}, entry])
