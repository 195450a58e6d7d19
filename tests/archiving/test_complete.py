"""Rows that were left out of measured tables are missed; those of what failed or was left behind are not."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.archiving import complete as checks
from overlayccl_core.archiving.complete import complete
from overlayccl_core.archiving.findings import Check, CheckOutcome
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.archiving.rows import launches as odd_launches
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.json_form import loads
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.table import write
from overlayccl_core.training.plan import Arm, StepSettings
from tests.archiving.forging import rewritten
from tests.fake_timings import timing_columns
from tests.stages.flow import ROOT, capabilities

DEPLOYMENT = "config/deployments/local.yaml"
TREE, OF_PROBLEM = "results/local", "results/local/problems/tp_mlp"


@pytest.fixture
def folder(flow: SimpleNamespace, tmp_path: Path) -> Path:
    for of in (TREE, OF_PROBLEM, Path(DEPLOYMENT).parent):
        (tmp_path / of).mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / DEPLOYMENT, tmp_path / DEPLOYMENT)
    write(CAPABILITIES, list(all_supported()), tmp_path / TREE / "capabilities.parquet")
    write(
        PROBES,
        flow.probes.filter(~pl.col("probe").str.contains("coalesced")),
        tmp_path / TREE / "probes.parquet",
    )
    write(SHORTLIST, flow.shortlisted, tmp_path / OF_PROBLEM / "shortlist.parquet")
    write(BENCH, flow.bench, tmp_path / OF_PROBLEM / "bench.parquet")
    return tmp_path


def all_supported() -> Iterator[dict[str, Any]]:
    """All but calls of several values at once: so their probes are none that ought to be there."""
    others = {column.name: None for column in CAPABILITIES.columns}
    for row in capabilities().iter_rows(named=True):
        yield {**others, **row, "fingerprint": "host a #0"}


def job(rule: str, settings: str, inputs: str, outputs: str) -> Planned:
    named = [" ".join(f"{Path(path).stem}={path}" for path in paths.split()) for paths in (inputs, outputs)]
    told = f"--deployment {DEPLOYMENT} --settings '{settings}' --inputs {named[0]} --outputs {named[1]}"
    return Planned(
        target="all",
        rule=rule,
        command=f"python -P -m workflow_scripts.stage {rule} {told} --log x.log",
        outputs=(),
        log=(f"{rule}.log",),
        parameters=(),
        alone=True,
    )


def wrong(folder: Path, *jobs: Planned) -> list[str]:
    found = list(complete(folder, jobs))
    assert found and {one.check for one in found} == {Check.COMPLETE}
    return [one.message for one in found if one.outcome is CheckOutcome.WRONG]


def once(make: Callable[..., Any]) -> Callable[..., Any]:
    """What is the same for all arguments here, made by the first call."""
    made: list[Any] = []
    return lambda *given: made[0] if made else made.append(make(*given)) or made[0]


def test_probes_are_those_of_the_sweep(
    folder: Path, flow: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "to_time", once(checks.to_time))
    monkeypatch.setattr(checks, "loads", cache(checks.loads))
    of = job(
        "probe",
        flow.configured.part("heldout_seed", "probe"),
        f"{TREE}/capabilities.parquet",
        f"{TREE}/probes.parquet",
    )
    assert not wrong(folder, of)
    table = folder / TREE / "probes.parquet"
    whole = table.read_bytes()
    rewritten(table, lambda f: f.with_columns(pl.col("program_json").reverse()))  # under others' digests
    [why] = wrong(folder, of)
    assert "which nobody asked for" in why
    table.write_bytes(whole)
    held_out = pl.read_parquet(table).filter(role="heldout")["probe"]
    rewritten(table, lambda f: f.filter(~pl.col("probe").is_in(held_out[:10].to_list())))
    [why] = wrong(folder, of)
    assert held_out[0] in why and "and 7 more" in why
    table.write_bytes(whole)
    rewritten(table, lambda f: pl.concat([f, f[:1]]))
    [why] = wrong(folder, of)
    assert "more than one row" in why
    rewritten(
        table, lambda f: f.with_columns(role=pl.lit("heldout"))
    )  # what was fitted is said to be held out
    assert any("which nobody asked for" in why for why in wrong(folder, of))


def test_a_bench_is_of_its_shortlist(folder: Path) -> None:
    of = job("bench", "{}", f"{OF_PROBLEM}/shortlist.parquet", f"{OF_PROBLEM}/bench.parquet")
    assert not wrong(folder, of)
    table = folder / OF_PROBLEM / "bench.parquet"
    last = pl.read_parquet(table)["candidate"][-1]
    rewritten(table, lambda f: f[:-1])
    [why] = wrong(folder, of)
    assert last in why
    rewritten(table, lambda f: pl.concat([f, f[:1]]))
    assert any("more than one row" in why for why in wrong(folder, of))


def test_every_rule_that_measures_for_all_is_listed_or_has_a_reason_not_to_be() -> None:
    measuring = [name for name, rule in rules(ALL).items() if rule.measures]
    assert sorted([*checks.RULES, *checks.UNLISTED]) == sorted(measuring)
    assert all(checks.UNLISTED.values())


def test_a_measuring_rule_that_nothing_lists_is_told(tmp_path: Path) -> None:
    [found] = complete(tmp_path, [job("made_up", "{}", "", "")])
    assert (found.outcome, found.subject) == (CheckOutcome.COULD_NOT, "made_up")
    light = replace(job("made_up", "{}", "", ""), alone=False)
    assert not [*complete(tmp_path, [light, job("selftest", "{}", "", "")])]


# -------------------------------------------------------------------------------------------------- training steps
STEPS = StepSettings(seconds=1.0, minimum_steps=2, maximum_steps=8, loss_steps=3, loss_seeds=(0, 1))
ARMS = tuple(
    Arm(name=name, microbatches=1, purposes=(Purpose.TIMED, Purpose.QUIET, Purpose.LOSS))
    for name in ("developer", "best_known_way", "finalist_1", "finalist_2")
)


def row(arm: str, launch: int, purpose: str = "timed", seed: int | None = None, us: float = 100.0) -> Any:
    steps = 3 if purpose == "loss" else 4
    return {
        "model": "tiny",
        "microbatches": 1,
        "arm": arm,
        "launch": launch,
        "purpose": purpose,
        "seed": launch if seed is None else seed,
        "status": "trained",
        "steps_us": [us + k / 10 for k in range(steps)],
        "gradient_rel_error": 1e-7 if purpose == "timed" and not launch else None,
        "matmul_digest": "ab",
    }


def launches(us: float = 100.0) -> list[Any]:
    """Three, in which finalist_2 has us for each step."""
    rows = []
    for arm in ARMS:
        of = us if arm.name == "finalist_2" else 100.0
        rows += [row(arm.name, launch, us=of) for launch in range(3)]
        rows += [row(arm.name, 0, "quiet"), *(row(arm.name, 0, "loss", seed) for seed in STEPS.loss_seeds)]
    return rows


def odd(rows: list[Any], *, narrows: bool = True) -> list[str]:
    arms: Any = SimpleNamespace(arms=ARMS)
    return [one.message for one in odd_launches(arms, rows, STEPS, 3, narrows=narrows)]


def of(arm: str, launch: int) -> Callable[[Any], bool]:
    return lambda row: (row["arm"], row["launch"]) == (arm, launch)


def test_every_arm_is_in_every_launch() -> None:
    assert not odd(launches())
    for arm, launch in (("best_known_way", 0), ("best_known_way", 2)):
        found = odd([row for row in launches() if not of(arm, launch)(row)])
        assert any(f"no row of 1 {arm} {launch} " in why for why in found), found
    assert odd([row for row in launches() if row["launch"] != 1])
    assert odd([row for row in launches() if row["purpose"] != "quiet"])
    assert odd([*launches(), row("best_known_way", 3)])
    [why] = odd([*launches(), row("best_known_way", 2)])
    assert "more than one row" in why


def test_what_was_left_behind_is_in_the_first_launches_alone() -> None:
    for us, since in ((300.0, 1), (130.0, 2)):
        left = [row for row in launches(us) if row["arm"] != "finalist_2" or row["launch"] < since]
        assert not odd(left)
        assert odd(left, narrows=False)
        assert odd(launches(us))  # it would not have run
        assert odd([row for row in left if not of("finalist_2", since - 1)(row)])
    assert odd([row for row in launches() if not of("finalist_2", 2)(row)])  # it was not slower


def test_what_later_launches_say_leaves_nothing_behind() -> None:
    rows = launches(us=115.0)
    for one in rows:
        if one["purpose"] == "timed":
            one["steps_us"] = one["steps_us"][:2]  # of two launches too few to tell, of three enough
    assert not odd(rows)


def test_what_failed_is_in_no_later_launch_and_has_a_row_that_says_so() -> None:
    failed = {**row("best_known_way", 1), "status": "crashed", "steps_us": []}
    without = [row for row in launches() if row["arm"] != "best_known_way" or not row["launch"]]
    assert not odd([*without, failed])
    assert odd(without)
    again = [row for row in launches() if row["arm"] != "best_known_way" or row["launch"] < 2]
    assert not odd([*again, failed])  # the launch was repeated, it failed there, and the first one is kept
    assert odd([*launches(), failed])


def test_arms_are_paired_step_by_step() -> None:
    rows = launches()
    slow = rows[0]["steps_us"]
    rows[0]["steps_us"] = [2.1 * us for us in slow[:2]]
    assert not odd(rows)
    rows[0]["steps_us"] = slow[:2]  # the best of an arm that is not slow
    [why] = odd(rows)
    assert "developer, M=1, launch 0" in why and "fewer steps" in why
    rows[0]["steps_us"] = [100.0, 100.0, 100.0]
    [why] = odd(rows)
    assert "[3, 4] steps" in why
    rows = launches()
    rows[0]["steps_us"] *= 4
    assert "16 steps, where from 2" in odd(rows)[0]
    rows = launches()
    next(row for row in rows if row["purpose"] == "loss")["steps_us"] = [1.0]
    assert "1 steps, where 3" in odd(rows)[0]


# ----------------------------------------------------------------------------------------------------------- alone
def test_what_is_deployed_is_confirmed_beside_what_needs_no_search(
    flow: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A baseline that failed before it was timed is in no row: it may be honest, and is said."""
    wanted = [
        one for one in flow.ready.iter_rows(named=True) if one["arm"] in ("developer", "best_known_way")
    ]
    wanted.append({**wanted[0], "arm": "deployed"})
    monkeypatch.setattr(checks.confirm, "rows_to_time", lambda _: [(one, True) for one in wanted])
    names = ("case", "direction", "arm", "candidate")
    timed = [
        {"problem": "tp_mlp", **{name: one[name] for name in names}}
        | timing_columns(loads(one["program_json"]), launch=launch)
        for one in wanted
        for launch in range(2)
    ]

    def found(rows: list[Any]) -> list[tuple[bool, str]]:
        return [(one.open, one.message) for one in checks._alone(rows, {"tp_mlp": None}, 2)]  # type: ignore[dict-item]

    assert found(timed) == []
    ((_, twice),) = found([*timed, timed[-1]])
    assert "more than one row" in twice
    for arm, is_open in (("deployed", False), ("developer", False), ("best_known_way", True)):
        lost = [one for one in timed if one["arm"] != arm]
        assert [one for one, _ in found(lost)] == [is_open] * sum(one["arm"] == arm for one in wanted)
    once = [one for one in timed if one["arm"] != "best_known_way" or not one["launch"]]
    assert all(not is_open and "1 launches, where 2" in why for is_open, why in found(once)) and found(once)
