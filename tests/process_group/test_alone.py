"""One rank of many in one process: calls, groups and dependencies of a script without a cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.observing.regions import cut

CAPTURE = [sys.executable, "-m", "overlayccl_core.cli.main", "capture"]
SCRIPT = Path(__file__).with_name("alone.py")
RANK, SIZE = 30, 224
MODEL = [list(range(28 * row, 28 * row + 28)) for row in range(8)]
DATA = [list(range(column, SIZE, 28)) for column in range(28)]


def captured(output: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = [*CAPTURE, "--output", str(output), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], pl.DataFrame]:
    """What --json printed, and the table."""
    output = tmp_path_factory.mktemp("alone") / "calls.parquet"
    ended = captured(output, "--json", "--world-size", SIZE, "--rank", RANK, "--", sys.executable, SCRIPT)
    assert not ended.returncode, ended.stderr[-2000:]
    return json.loads(ended.stdout), pl.read_parquet(output)


@pytest.mark.ranks
def test_a_step_is_that_of_the_rank_in_its_groups_without_times_of_communication(found) -> None:
    _, table = found
    step = table.filter(pl.col("depends_on").is_not_null())
    rows = step.select("kind", "inputs_bytes", "group_ranks", "depends_on").rows()
    whole, data, model = list(range(SIZE)), DATA[2], MODEL[1]
    parameters = 4 * (56 * 56 // 28 + 56 // 28)
    assert rows == [
        ("all_gather", parameters, model, []),
        ("all_reduce", 4 * 4 * 56, model, [0]),
        ("all_reduce", 4 * (56 * 4 + 4), data, [1]),
        ("reduce_scatter", 28 * parameters, model, [1]),  # its backward pass begins at the loss
        ("all_reduce", 8, whole, []),
    ]
    assert step["rank"].unique().to_list() == [RANK] and step["world_size"].unique().to_list() == [SIZE]
    assert table["call_us"].null_count() == table["blocked_us"].null_count() == table.height
    assert step["parameters"].to_list()[2] == ["bias", "weight"]


@pytest.mark.ranks
def test_regions_are_of_all_ranks_whose_groups_the_script_made(found) -> None:
    screen, table = found
    regions, fences = cut(table)
    groups = [[list(group) for group in region.groups] for region in regions]
    assert groups == [MODEL, DATA, MODEL]
    assert [fence.why for fence in fences] == ["no ways for int64"]
    assert (screen["world_size"], screen["ranks"], screen["free"]) == (SIZE, 1, 4)
    assert screen["blocked_us"] is None and "No times of communication" in screen["gaps"][0]


@pytest.mark.ranks
def test_a_script_that_stops_at_a_garbage_value_says_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\none = torch.ones(1)\n"
        "dist.all_reduce(one)\nassert one == dist.get_world_size()\n"
    )
    output = tmp_path / "calls.parquet"
    ended = captured(output, "--world-size", 4, "--", sys.executable, script)
    assert ended.returncode and "may stop" in ended.stderr and not output.exists()


def test_what_cannot_go_together_is_refused(tmp_path: Path) -> None:
    for options, why in (
        (("--world-size", 4, "--rank", 4, "--", "python"), "--rank must be below"),
        (("--from", "trace.json", "--", "python"), "leave the command out"),
        ((), "no command"),
    ):
        ended = captured(tmp_path / "calls.parquet", *options)
        assert ended.returncode and why in ended.stderr, ended.stderr
