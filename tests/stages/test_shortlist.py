"""What is timed: the obvious, the promising, some at random; the same list for the same input, without prices."""

from dataclasses import replace
from functools import reduce
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import DType, IssueOrder
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.search.labels import has_graphs, other_orders
from overlayccl_core.stages import shortlist
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.shortlist import SHORTLIST, Why
from overlayccl_core.tables.table import write
from tests.stages.flow import quiet


@pytest.fixture
def flow(tp_flow: SimpleNamespace) -> SimpleNamespace:
    """Tables of the first Case only."""
    case = pl.col("case") == tp_flow.listed["case"][0]
    fewer = {
        name: getattr(tp_flow, name).filter(case) for name in ("listed", "known_ways", "prices", "candidates")
    }
    return SimpleNamespace(**vars(tp_flow) | fewer)


def listed(flow: SimpleNamespace, **changes: Any) -> list[dict[str, Any]]:
    """Rows of the shortlist; changes: other tables, another way to emit, or fields of the settings."""
    tables = {name: changes.pop(name, getattr(flow, name)) for name in ("known_ways", "prices", "candidates")}
    emits = changes.pop("emit", emit)
    configured = flow.configured.changed(shortlist=flow.configured.shortlist.changed(**changes))
    return shortlist.run(configured, *tables.values(), emits, progress=quiet)


def brought_by_the_search(row: dict[str, Any]) -> bool:
    return bool(set(row["why"]) & {*Why} - {Why.KNOWN})


def told_apart(candidates: pl.DataFrame) -> pl.DataFrame:
    """Usable finds, cheapest first; of those that only an order tells apart at one price, the plainest or first."""
    usable = candidates.filter(pl.col("numerics") != "lossy").with_columns(
        calls=pl.col("family").str.replace(", (early|(2|4|all) in flight)$", "")
    )
    in_order = usable.sort("predicted_us", pl.col("family") != pl.col("calls"), "candidate")
    return in_order.unique(["calls", "predicted_us"], keep="first", maintain_order=True)


def names(rows: list[dict[str, Any]], why: str) -> list[str]:
    return [row["candidate"] for row in rows if why in row["why"]]


def test_baselines_come_first_and_all_proven_known_ways_that_are_written_out_are_listed(
    flow: SimpleNamespace,
) -> None:
    rows = listed(flow)
    assert [row["why"] for row in rows[:3]] == [["developer"], ["single_graph"], ["hand_bundled"]]
    proven = flow.known_ways.filter((pl.col("equivalence") == "pass") & (pl.col("direction") == "forward"))
    assert set(proven.filter(pl.col("role") != "derived")["strategy"]) <= {row["candidate"] for row in rows}
    assert not [row for row in rows if not row["why"]]


def test_an_equal_shortlist_is_an_equal_file_whatever_the_order_of_its_inputs(
    flow: SimpleNamespace, tmp_path: Any
) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, candidates in zip(paths, (flow.candidates, flow.candidates.reverse()), strict=True):
        write(SHORTLIST, listed(flow, candidates=candidates), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_prices_that_keep_their_order_change_nothing(flow: SimpleNamespace) -> None:
    def dearer(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(predicted_us=pl.col("predicted_us") * 1.5)

    assert listed(flow, prices=dearer(flow.prices), candidates=dearer(flow.candidates)) == listed(flow)
    assert not [c.name for c in SHORTLIST.columns if c.name.endswith("_us")]


def test_a_direction_without_exchange_is_not_listed(flow: SimpleNamespace) -> None:
    assert "backward" in flow.known_ways["direction"].to_list()
    assert {row["direction"] for row in listed(flow)} == {"forward"}
    said: list[str] = []
    local = flow.known_ways.filter(pl.col("direction") == "backward")
    with pytest.raises(ValueError, match="no Case has anything"):
        shortlist.run(flow.configured, local, flow.prices, flow.candidates, emit, progress=said.append)
    assert "exchanges nothing" in said[0]


def test_each_of_the_promising_families_sends_its_cheapest(flow: SimpleNamespace) -> None:
    rows = listed(flow, families=100, random=0, at_least=1)
    cheapest = told_apart(flow.candidates).unique("family", keep="first", maintain_order=True)
    modules = {module(row["program_json"]) for row in rows}
    assert {module(text) for text in cheapest["program_json"]} <= modules
    fewer = listed(flow, families=1, random=0, at_least=1)
    assert len(names(fewer, "family")) < len(names(rows, "family"))


def test_what_a_bench_cannot_tell_from_another_takes_no_familys_place(flow: SimpleNamespace) -> None:
    everything = {"families": 100, "random": 100, "at_least": 100}
    one, other, *_ = (
        row
        for row in listed(flow, **everything)
        if "family" in row["why"] and not overlaps(loads(row["program_json"]))
    )
    of = {row["candidate"]: row for row in flow.candidates.iter_rows(named=True)}
    family, us = of[one["candidate"]]["family"], of[one["candidate"]]["predicted_us"]
    is_other = pl.col("candidate") == other["candidate"]
    for order in (order.words for order in IssueOrder if order is not IssueOrder.AS_WRITTEN):
        alike = flow.candidates.with_columns(
            family=pl.when(is_other).then(pl.lit(f"{family}, {order}")).otherwise("family"),
            predicted_us=pl.when(is_other).then(us).otherwise("predicted_us"),
        )
        told = {row["candidate"] for row in listed(flow, candidates=alike, **everything)}
        assert one["candidate"] in told and other["candidate"] not in told, order


def test_of_twins_that_only_a_label_tells_apart_the_first_is_listed(flow: SimpleNamespace) -> None:
    """Two microbatches: no more than two calls can be in flight. A permute's tag is another in each."""
    frame = flow.candidates
    programs = (loads(text) for text in frame["program_json"])
    one = next(p for p in programs if p.starts_early and not has_graphs(p) and len(p.collectives) > 2)
    four, whole = (reduce(apply, steps, one) for steps in other_orders(one)[2:])
    assert four.value_digest != whole.value_digest and four.run_digest == whole.run_digest
    rows = [
        {**frame.row(0, named=True), "candidate": name, "program": p.digest, "value_digest": p.value_digest}
        | {"family": name, "predicted_us": us, "program_json": dumps(p), "numerics": "exact"}
        for name, p, us in (("four", four, 1.0), ("all", whole, 2.0))
    ]
    both = pl.concat([frame, pl.DataFrame(rows, schema=frame.schema)])
    told = {row["candidate"] for row in listed(flow, candidates=both, families=100, random=100, at_least=100)}
    assert "four" in told and "all" not in told


def test_of_finds_with_one_module_the_first_is_listed(flow: SimpleNamespace) -> None:
    of_people = set(flow.known_ways["program"])

    def one_module(program: Program) -> str:
        return f"{program.digest} by {'people' if program.digest in of_people else 'the search'}"

    rows = listed(flow, families=100, random=100, emit=one_module)
    assert len([row for row in rows if brought_by_the_search(row)]) == 1
    assert len([row for row in listed(flow, families=100, random=100) if brought_by_the_search(row)]) > 1


def module(text: str) -> str:
    program = loads(text)
    return emit(program).replace(program.digest, "")


def test_some_are_drawn_at_random_and_the_seed_decides(flow: SimpleNamespace) -> None:
    draws = {tuple(names(listed(flow, families=1, seed=seed), "random")) for seed in range(6)}
    assert {len(draw) for draw in draws} == {1}
    assert len(draws) > 1


def test_the_cheapest_that_overlap_are_listed_though_a_known_way_overlaps_too(flow: SimpleNamespace) -> None:
    """The price sees no computing behind which a collective could hide; single_graph is always listed."""
    ways = {module(text) for text in flow.known_ways["program_json"].drop_nulls()}
    [way] = flow.prices.filter(strategy="single_graph", direction="forward")["predicted_us"]
    finds = {
        row["candidate"]
        for row in flow.candidates.iter_rows(named=True)
        if row["numerics"] != "lossy" and overlaps(loads(row["program_json"]))
        if module(row["program_json"]) not in ways
    }
    assert finds and overlaps(loads(flow.known_ways.filter(strategy="single_graph")["program_json"][0]))

    def overlapping(us: dict[str, float]) -> list[str]:
        frame = flow.candidates.with_columns(
            predicted_us=pl.col("candidate").replace_strict(us, default=pl.col("predicted_us"))
        )
        return names(
            listed(flow, candidates=frame, families=1, random=0, overlapping=1, at_least=1), "overlaps"
        )

    slow = dict.fromkeys(finds, 2 * way)
    for one in finds:
        assert overlapping(slow | {one: way / 2}) == [one]
    assert overlapping(slow) == []


def test_as_many_families_that_overlap_are_listed_as_the_settings_say(flow: SimpleNamespace) -> None:
    few = {"families": 1, "random": 0, "at_least": 1}
    many = [len(set(names(listed(flow, overlapping=n, **few), "overlaps"))) for n in (0, 1, 20)]
    assert many[0] == 0 and many[2] > max(many[1], 1)


def test_it_is_filled_up_with_the_next_cheapest_or_with_all_there_are(flow: SimpleNamespace) -> None:
    ways = len([row for row in listed(flow) if not brought_by_the_search(row)])
    rows = listed(flow, families=1, random=0, at_least=ways + 4)
    assert len(rows) == ways + 4
    us = dict(flow.candidates.select("candidate", "predicted_us").iter_rows())
    filled, modules = names(rows, "next_cheapest"), {module(row["program_json"]) for row in rows}
    left = [
        row["predicted_us"]
        for row in flow.candidates.filter(pl.col("numerics") != "lossy").iter_rows(named=True)
        if module(row["program_json"]) not in modules
    ]
    assert max(us[name] for name in filled) <= min(left)
    everything = {module(row["program_json"]) for row in listed(flow, at_least=1000)}
    assert {module(text) for text in told_apart(flow.candidates)["program_json"]} <= everything


def test_what_is_not_proven_and_what_is_lossy_is_not_listed(flow: SimpleNamespace) -> None:
    first = flow.candidates.filter(pl.col("origin") == "rule").row(0, named=True)
    for change in (
        {"equivalence": None},
        {"legality": "fail"},
        {"numerics": "lossy"},
        {"program_json": None},
    ):
        rows = [
            row | (change if row["candidate"] == first["candidate"] else {})
            for row in flow.candidates.to_dicts()
        ]
        frame = pl.DataFrame(rows, schema=CANDIDATES.schema)
        assert first["candidate"] not in {
            r["candidate"] for r in listed(flow, candidates=frame, at_least=1000)
        }


def test_where_the_developer_rounds_lossy_finds_are_listed(flow: SimpleNamespace) -> None:
    developer = flow.known_ways.filter(role="developer", direction="forward").row(0, named=True)
    of = loads(developer["program_json"]).problem.case
    in_16_bits = catalog.developer_program(catalog.build(replace(of, dtype=DType.BFLOAT16)))
    rounding = [
        row | ({"program_json": dumps(in_16_bits)} if row["program"] == developer["program"] else {})
        for row in flow.known_ways.to_dicts()
    ]
    lossy = flow.candidates.with_columns(numerics=pl.lit("lossy"))
    rows = listed(flow, candidates=lossy, at_least=1000)
    assert not [row for row in rows if row["candidate"].startswith("found-")]
    ways = pl.DataFrame(rounding, schema=flow.known_ways.schema)
    rows = listed(flow, known_ways=ways, candidates=lossy, at_least=1000)
    assert {Why.RANDOM, Why.NEXT_CHEAPEST} <= {why for row in rows for why in row["why"]}


def test_equal_programs_are_listed_once_under_both_reasons(flow: SimpleNamespace) -> None:
    developer = flow.known_ways.row(0, named=True)
    program = ("program", "value_digest", "program_json")
    rows = [
        row | ({k: developer[k] for k in program} if row["strategy"] == "single_graph" else {})
        for row in flow.known_ways.to_dicts()
    ]
    ways = pl.DataFrame(rows, schema=flow.known_ways.schema)
    entries = listed(flow, known_ways=ways, overlapping=0)
    assert entries[0]["candidate"] == "developer" and entries[0]["why"] == ["developer", "single_graph"]
    assert "single_graph" not in {row["candidate"] for row in entries}


def test_without_a_search_the_known_ways_are_the_list(flow: SimpleNamespace) -> None:
    rows = listed(flow, candidates=pl.DataFrame(schema=CANDIDATES.schema))
    assert {row["origin"] for row in rows} == {"developer", "known"}
    assert {row["family"] for row in rows} == {None, "derived"}


def test_of_what_is_derived_the_cheapest_is_listed_and_no_more_than_of_a_family(
    flow: SimpleNamespace,
) -> None:
    forward = (pl.col("direction") == "forward") & (pl.col("equivalence") == "pass")
    derived = flow.known_ways.filter(forward & (pl.col("role") == "derived"))["strategy"]
    rows = listed(flow, candidates=pl.DataFrame(schema=CANDIDATES.schema), random=0, at_least=1, families=1)
    [mine] = [row for row in rows if Why.FAMILY in row["why"]]
    prices = flow.prices.filter(
        (pl.col("direction") == "forward") & pl.col("strategy").is_in(derived.implode())
    )
    assert len(derived) > 1 and mine["candidate"] == prices.sort("predicted_us")["strategy"][0]
    assert {row["origin"] for row in rows} == {"developer", "known"}


def test_without_a_proven_developer_there_is_nothing_to_compare_with(flow: SimpleNamespace) -> None:
    broken = flow.known_ways.with_columns(
        equivalence=pl.when(pl.col("role") == "developer").then(pl.lit("fail")).otherwise("equivalence")
    )
    with pytest.raises(ValueError, match=r"developer, .*not legal"):
        listed(flow, known_ways=broken)
