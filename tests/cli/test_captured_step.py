"""The screen of a captured step."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from overlayccl_core.cli.capture import next_commands
from overlayccl_core.cli.captured_step import SITES, parts
from overlayccl_core.observing.overview import overview
from overlayccl_core.tables.captured import CaptureSource
from tests.observing.captured_rows import call, step, summed
from tests.observing.test_overview import at, timed


def screen(calls: list[dict], width: int = 160) -> str:
    lines = io.StringIO()
    console = Console(file=lines, width=width)
    for part in parts(overview(timed(step(calls), [at(0, 100, 400, 300)] * len(calls)))):
        console.print(part, highlight=False, markup=False)
    return lines.getvalue()


def test_it_has_what_the_step_costs_and_the_dearest_lines_first() -> None:
    cheap = [call("broadcast", root=0, line=f"train.py:{n}", blocked_us=1.0) for n in range(SITES)]
    shown = screen([*cheap, summed(8, line="/home/me/train.py:99"), summed(8, line="/home/me/train.py:99")])
    assert "4 ranks, 12 calls a step. A step takes 1 ms." in shown
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith("train.py")]
    assert len(rows) == SITES and rows[0][:2] == ["train.py:99", "2"]
    assert rows[0][-3:] == ["80.0%", "<0.001", "grad_ar"]  # 32 bytes in 700 us
    assert "And 1 cheaper sites" in shown
    assert "2 of 12 calls may be made in other ways" in shown and "10: no ways of broadcast" in shown


@pytest.mark.parametrize("width", [80, 160])
def test_it_fits_a_terminal(width: int) -> None:
    shown = screen([summed(8, line="/home/me/a_long_name_of_a_script_for_training.py:12")], width)
    assert max(map(len, shown.splitlines())) <= width


def test_the_next_commands_name_the_table_and_the_script(tmp_path) -> None:
    seen, table = overview(timed(step([summed(8)]), [at(0, 100, 400, 300)])), tmp_path / "calls.parquet"
    search, compared, online = next_commands(seen, table, ["torchrun", "my train.py"], "local")
    assert search.endswith(f"--config captured={table}")
    assert compared == "overlayccl capture --compare results/local-calls -- torchrun 'my train.py'"
    assert online == f"overlayccl run --online {table} --keep found -- torchrun 'my train.py'"
    search, compared, online = next_commands(seen, table, ["torchrun", "train.py"], "local-2")
    assert "run --deployment local-2 --online" in online
    assert search.endswith(" deployment=local-2") and "results/local-2-calls" in compared
    alone = replace(seen, source=CaptureSource.FAKE)
    assert not any("--compare" in line for line in next_commands(alone, table, ["a"], "local"))
