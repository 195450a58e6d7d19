"""`overlayccl drift`: what the last re-probe found, and a deployed file timed beside its plain calls."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.cli import drift as command
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN
from overlayccl_core.program.case import Case
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.tables.drift import DRIFT, DRIFTED_CHOICES
from overlayccl_core.tables.table import write
from tests.cli.repository import REPOSITORY, Call
from tests.emit.deployed_modules import HERE, deployed, entry
from tests.rows import row

PROBLEM = "uniform_a2a"
THRICE = """from overlayccl_core.program.language import all_to_all


def thrice(io, p):
    x = io.read("send")
    for _ in range(3):
        x = all_to_all(x)
    io.write("received", x)
"""


def case() -> Case:
    """A configured Case of two ranks."""
    settings = read(REPOSITORY / "config/config.yaml", {"deployment": "local-2"}).changed(models=())
    return cases_of(settings, load(REPOSITORY / "config/deployments/local-2.yaml"), PROBLEM, REPOSITORY)[0]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployed file whose chosen way exchanges three times, which is slower than once; and its record."""
    here = case()
    program = trace_source(THRICE, "thrice", catalog.build(here))
    file = tmp_path_factory.mktemp("deploy") / f"{PROBLEM}.py"
    file.write_text(deployed(PROBLEM, [entry(here, forward=program)], HERE))
    chosen = {"speedup": 1.5, "speedup_low": 1.4, "speedup_high": 1.6}
    found = {"case": here.id, "direction": "forward", "in_file": "0", "chosen": chosen}
    file.with_suffix(".json").write_text(json.dumps({"deployed": [found]}))
    return file


def planted(monkeypatch: pytest.MonkeyPatch, chosen_us: float) -> list[Job]:
    """Times without ranks: 100 us for plain calls."""
    asked: list[Job] = []

    def timed(jobs: list[Job], *_: Any) -> list[Any]:
        asked.extend(jobs)
        us = {CHOSEN: chosen_us, PLAIN: 100.0}
        return [SimpleNamespace(key=one.key, samples_us=(us[one.way],) * 12, disturbed=False) for one in jobs]

    monkeypatch.setattr(command, "timed_once", timed)
    return asked


def test_before_anybody_asked_the_command_is_said(call: Call) -> None:
    assert "snakemake --profile local drift" in call("drift").message(2)


@pytest.mark.parametrize(("factor", "code", "said"), [(1.0, 0, "still holds"), (3.0, 1, "no longer holds")])
def test_it_says_what_was_found_and_its_code_tells_whether_theta_holds(
    call: Call, root: Path, factor: float, code: int, said: str
) -> None:
    folder = root / "results/local/drift"
    times = {"old_us": 100.0, "low_us": 80.0, "high_us": 120.0, "new_us": 100.0 * factor}
    rows = [row(DRIFT, probe="p", kind="all_reduce.network4", within=factor == 1, was_within=True, **times)]
    choice = row(
        DRIFTED_CHOICES,
        **{"case": "c", "cheapest": "a", "now_cheapest": "b", "changes": factor > 1},
        **{"gain": 1.5, "gain_low": 1.3, "gain_high": 1.7},
    )
    folder.mkdir(exist_ok=True)
    write(DRIFT, rows, folder / "drift.parquet")
    write(DRIFTED_CHOICES, [choice], folder / "drifted_choices.parquet")
    done = call("drift")
    assert done.code == code and f"theta {said}: {int(factor == 1)} of 1 probes" in done.out
    assert ("all_reduce across nodes, groups of 4: 3.0 times slower" in done.out) == bool(code)
    assert ("b in place of a, 1.50 (1.30..1.70)" in done.out) == bool(code)


@pytest.mark.parametrize(
    ("us", "code", "word"), [(50.0, 0, "faster"), (100.0, 0, "undecided"), (200.0, 1, "slower")]
)
def test_a_file_is_compared_with_its_plain_calls(
    call: Call, module: Path, monkeypatch: pytest.MonkeyPatch, us: float, code: int, word: str
) -> None:
    asked = planted(monkeypatch, us)
    done = call("drift", "--module", str(module), "--deployment", "local-2")
    assert done.code == code and f": {word}" in done.words
    assert (
        f"chosen is {100 / us:.2f} (" in done.words and "(when it was chosen 1.50 (1.40..1.60))" in done.words
    )
    assert len(asked) == 4 and all(one.deployed and one.source == module.read_text() for one in asked)


def test_another_file_is_refused(call: Call, module: Path, root: Path) -> None:
    assert "no deployed file" in call("drift", "--module", str(root / "mine.py")).message(2)
    assert "no deployed file" in call("drift", "--module", "nowhere.py").message(2)
    assert "--deployment" in call("drift", "--module", str(module)).message(2)  # of four ranks


@pytest.mark.ranks
def test_on_ranks_a_chosen_way_that_is_slower_by_now_is_found(call: Call, bare: Path, module: Path) -> None:
    given = ("--root", str(bare), "--module", str(module), "--seconds", "12", "--deployment", "local-2")
    done = call("drift", *given)
    assert done.code == 1, done.out + done.err
    assert done.words.count(": slower") >= 1 and "forward: chosen is 0." in done.words
    assert not list(bare.rglob(".partial"))
