"""The stages of `probing`: what is asked, timed in one launch and weighed; one small conversation on real ranks."""

import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.configuration import searches, settings
from overlayccl_core.stages import ask_probes, time_probes, weigh_probes
from overlayccl_core.tables.probing import ASKED_PROBES, CHOSEN_PROBES, COMPARED_PROBES, PROBE_CALLS, PROBING
from overlayccl_core.tables.table import Table, write
from tests.on_ranks import here
from tests.stages.flow import ROOT, capabilities, quiet, timed

CONFIGURED = settings.read(ROOT / "config/config.yaml")
TURNS = [
    [
        {"name": "time_collectives", "input": {"kind": "all_reduce", "payload_bytes": 1024}},
        {"name": "time_graphs", "input": {"graphs": 3}},
        {"name": "time_collectives", "input": {"kind": "all_reduce", "payload_bytes": 1}},
    ],
    [{"name": "time_mixed", "input": {"count": 6}}],
]


def made_up(probes: Any, *_: Any, **__: Any) -> list[dict[str, Any]]:
    return timed(list(probes))


@pytest.fixture
def without_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in (ask_probes, time_probes):
        monkeypatch.setattr(stage, "time_probes", made_up)


class Flow:
    """The three stages, one after another, through their schemas; a script answers."""

    def __init__(self, folder: Path, deployment: Any, **changes: Any) -> None:
        self.folder, self.deployment = folder, deployment
        self.settings = CONFIGURED.changed(
            fit=CONFIGURED.fit.changed(bootstraps=4),
            probe=CONFIGURED.probe.changed(mixed=12, heldout=8),
            probing=CONFIGURED.probing.changed(draws=2),
        ).changed(**changes)

    def checked(self, table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
        return write(table, rows, self.folder / f"{table.name}.parquet")

    def asked(self, turns: list[Any], can: pl.DataFrame, **search: Any) -> dict[str, pl.DataFrame]:
        (self.folder / "turns.json").write_text(json.dumps(turns))
        command = f"{sys.executable} {ROOT / 'examples/answer.py'} {self.folder / 'turns.json'}"
        fields = yaml.safe_load((ROOT / "config/searches/command.yaml").read_text())
        file = self.folder / "mine.yaml"
        file.write_text(yaml.safe_dump(fields | {"command": command} | search))
        rows = ask_probes.run(
            *(
                self.deployment,
                self.settings,
                searches.load("mine", self.folder),
                can,
                self.folder / ".partial",
            ),
            allowance=Allowance(answers=self.folder / "answers", tree=self.folder, max_usd=1.0, root=ROOT),
            progress=quiet,
        )
        return {t.name: self.checked(t, rows[t.name]) for t in (ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS)}

    def weighed(self, asked: dict[str, pl.DataFrame], can: pl.DataFrame) -> SimpleNamespace:
        timed = time_probes.run(
            *(self.deployment, self.settings, can, asked["chosen_probes"], self.folder / ".partial"),
            progress=quiet,
        )
        compared = self.checked(COMPARED_PROBES, timed)
        calls = asked["probe_calls"]
        weighed = weigh_probes.run(self.settings, asked["asked_probes"], calls, compared, progress=quiet)
        return SimpleNamespace(compared=compared, probing=self.checked(PROBING, weighed))


def test_every_call_of_a_tool_is_a_row_and_the_last_says_why_it_ended(
    tmp_path: Path, without_ranks: None
) -> None:
    asked = Flow(tmp_path, here(4)).asked(TURNS, capabilities())
    rows = asked["asked_probes"]
    assert rows["outcome"].to_list() == ["measured"] * 2 + ["refused"] + ["measured"] * 6 + ["told", "ended"]
    assert rows["turn"].to_list() == [0] * 3 + [1] * 6 + [2, 2]
    assert rows["message"][-1] == "it called finish" and rows["tool"][-1] == ""
    assert rows["number"].to_list() == list(range(11))
    chosen = asked["chosen_probes"]
    assert chosen["probe"][:2].to_list() == ["all_reduce-world-1x1KiB-1-deep", "graphs-nothing-3x1KiB"]
    assert set(chosen["program"]) == set(rows["program"].drop_nulls())
    calls = asked["probe_calls"]
    assert calls["outcome"].to_list() == ["tool_calls"] * 3 and set(calls["purpose"]) == {"probe"}
    assert set(calls["made_by"]) == {"scripted"} and set(calls["search"]) == {"mine"}


def test_the_sweep_and_what_was_chosen_are_timed_together_each_program_once(
    tmp_path: Path, without_ranks: None
) -> None:
    flow = Flow(tmp_path, here(4))
    asked = flow.asked(TURNS, capabilities())
    found = flow.weighed(asked, capabilities())
    compared, rows = found.compared, found.probing
    assert compared["program"].n_unique() == compared.height
    mine = compared.filter(pl.col("chosen_by").list.contains("mine"))
    assert set(mine["program"]) == set(asked["chosen_probes"]["program"])
    assert mine["fixed"].sum() == 6  # the random ones are the sweep's
    assert not compared.filter(role="heldout", fixed=True).height
    assert rows["arm"].to_list() == ["fixed", "agent"] + ["fixed_equal_cost"] * 2
    agent = rows.row(1, named=True)
    assert agent["probes"] == 8 and agent["made_by"] == ["scripted"] and agent["calls"] == 3
    assert agent["launches"] == 2 and agent["ended"] == "it called finish"
    assert rows["fingerprint"].n_unique() == 1 and not rows["disturbed"].any()


def test_where_nobody_answers_there_are_rows_all_the_same(tmp_path: Path, without_ranks: None) -> None:
    flow = Flow(tmp_path, here(4))
    asked = flow.asked([], capabilities(), command="false")
    assert asked["chosen_probes"].is_empty() and asked["probe_calls"]["outcome"].to_list() == ["failed"]
    rows = flow.weighed(asked, capabilities()).probing
    assert rows["arm"].to_list() == ["fixed", "agent"]
    agent = rows.row(1, named=True)
    assert agent["probes"] == agent["priced"] == agent["launches"] == 0
    assert agent["median_log_error"] is None and "command 'false'" in agent["ended"]


def test_a_search_that_asks_nobody_is_refused(tmp_path: Path, without_ranks: None) -> None:
    offline = searches.load("offline", ROOT / "config/searches")
    with pytest.raises(ValueError, match="offline asks nobody"):
        ask_probes.run(
            *(here(4), CONFIGURED, offline, capabilities(), tmp_path),
            allowance=Allowance(answers=tmp_path, tree=tmp_path, max_usd=None, root=ROOT),
            progress=quiet,
        )


@pytest.mark.ranks
def test_on_real_ranks_it_hears_what_they_took_and_a_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    can = capabilities().filter(pl.col("group_size") == 2, pl.col("stride") == 1)
    probe = CONFIGURED.probe.changed(seconds=20, rounds_of_fitted=3)
    flow = Flow(tmp_path, here(2), probe=probe)
    first = flow.asked(TURNS[:1], can)
    rows = first["chosen_probes"]
    assert rows.height == 2 and rows["rounds"].to_list() == [3, 3] and rows["samples_us"].list.min().min() > 0
    told = first["asked_probes"].filter(outcome="measured")["message"].to_list()
    assert all("3 rounds" in one for one in told)
    forgotten = partial(flow.asked, TURNS[:1], can, command="false")  # nobody to ask, nothing to measure anew
    again = forgotten()
    assert again["probe_calls"]["recorded"].to_list() == [True, True]
    assert again["chosen_probes"].equals(rows)
