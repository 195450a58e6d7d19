"""Traces and dumps that torch writes, of two ranks, as captured calls."""

import subprocess
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.observing.files import read_files
from overlayccl_core.observing.overview import overview
from overlayccl_core.observing.traces import read_trace
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.table import write
from tests.process_group.test_seam import TORCHRUN

SCRIPT = Path(__file__).with_name("profiled.py")
BUCKET = 4 * (64 * 8 + 8)
OF_BOTH = [
    ("all_reduce", "float32", BUCKET, BUCKET, "backward"),
    ("all_gather", "float32", 32, 64, ""),
    ("reduce_scatter", "float32", 32, 16, ""),
    ("all_to_all", "float32", 32, 32, ""),
]
LAST = ("all_reduce", "bfloat16", 12, 12, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    command = [*TORCHRUN, "--nproc-per-node", "2", str(SCRIPT), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not ended.returncode, ended.stderr[-2000:]
    return folder


def captured(folder: Path, *names: str) -> pl.DataFrame:
    return write(CAPTURED_CALLS, read_files(folder / name for name in names), folder / "calls.parquet")


def calls(table: pl.DataFrame, rank: int) -> list[tuple[object, ...]]:
    """The calls of the last step."""
    step = table.filter(pl.col("rank") == rank).filter(pl.col("step") == pl.col("step").max())
    return step.select("kind", "dtype", "inputs_bytes", "outputs_bytes", "part").rows()


@pytest.mark.ranks
def test_a_trace_has_sizes_times_lines_and_steps(folder: Path) -> None:
    table = captured(folder, "trace-0.json", "trace-1.json")
    assert calls(table, 0) == [*OF_BOTH, ("send", "float32", 32, 0, ""), LAST]
    assert calls(table, 1) == [*OF_BOTH, ("recv", "float32", 0, 32, ""), LAST]
    assert (
        table["step"].n_unique() == 3 and table["step_us"].null_count() == 0
    )  # from one optimizer's step to the next
    assert {line.rpartition(":")[0] for line in table["line"]} == {SCRIPT.name}
    assert (table["done_us"] - table["issued_us"]).min() > 0
    assert table.filter(kind="all_to_all")["input_splits"].to_list()[:1] == [[3, 5]]
    assert table.filter(kind="send")["peer"].unique().to_list() == [1]
    assert table["group_ranks"].unique().to_list() == [[0, 1]]
    assert (
        table.filter(pl.col("kind").is_in(["all_reduce", "reduce_scatter"]))["reduction"].null_count() == 18
    )


@pytest.mark.ranks
def test_a_dump_has_sizes_lines_and_what_gloo_calls_a_sum_is_a_reduce_scatter(folder: Path) -> None:
    table = captured(folder, "dump-1.pkl", "dump-0.pkl")
    for rank in (0, 1):  # gloo notes no sends; the step begins anywhere
        found = calls(table, rank)
        at = found.index(OF_BOTH[0])
        assert [*found[at:], *found[:at]] == [*OF_BOTH, LAST]
    lines = SCRIPT.read_text().splitlines()
    gather = table.filter(kind="all_gather")["line"][0]
    assert "dist.all_gather(" in lines[int(gather.rpartition(":")[2]) - 1]


@pytest.mark.ranks
def test_the_screen_of_either_says_what_is_missing(folder: Path) -> None:
    for name in ("trace-0.json", "dump-0.pkl"):
        step = overview(captured(folder, name))
        assert step.gaps and step.free is None and step.blocked_us is None and step.ranks == 1
    with pytest.raises(ValueError, match="files of one kind"):
        captured(folder, "trace-0.json", "dump-1.pkl")


def test_groups_and_dtype_are_those_that_nccl_tells_inside_the_call() -> None:
    comm = {
        "Collective name": "allreduce",
        "dtype": "BFloat16",
        "Process Group Name": "3",
        "In msg nelems": 8,
    }
    of_list = {"Input Dims": [[[8]], []], "Input type": ["TensorList", ""], "Concrete Inputs": ["", ""]}
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "c10d::allreduce_",
            "tid": 7,
            "ts": 10.0,
            "dur": 9.0,
            "args": of_list,
        },
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "record_param_comms",
            "tid": 7,
            "ts": 11.0,
            "dur": 5.0,
            "args": comm,
        },
    ]
    launch = {**events[0], "name": "nccl:all_reduce", "args": {"External id": 5}}
    events.append({**launch, "cat": "user_annotation", "ts": 12.0, "dur": 2.0})
    kernel = {**launch, "cat": "gpu_user_annotation", "tid": 20, "ts": 15.0, "dur": 30.0}
    groups = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "3", "ranks": [1, 3]}]
    about = {"backend": "nccl", "rank": 1, "world_size": 4, "pg_config": groups}
    (call,), (launched,) = (
        (seen := read_trace({"distributedInfo": about, "traceEvents": of}, "trace.json")).steps[0].calls
        for of in ([*events, kernel], events)
    )
    assert (call.kind, call.dtype, call.group, seen.groups[call.group]) == (
        "all_reduce",
        "bfloat16",
        "3",
        [1, 3],
    )
    assert (call.device, call.call_us, call.done) == ("cuda", None, 45.0)
    assert launched.done is None  # the launch of a kernel ends before the kernel


def test_a_trace_without_sizes_is_refused() -> None:
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "c10d::allreduce_",
        "tid": 7,
        "ts": 10.0,
        "dur": 9.0,
        "args": {},
    }
    trace = {"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [event]}
    with pytest.raises(ValueError, match="record_shapes=True"):
        read_trace(trace, "trace.json")
