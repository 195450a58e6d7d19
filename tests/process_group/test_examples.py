"""`overlayccl capture` of training scripts that know nothing of it, against their calls as written by hand."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.observing.fits import fits
from tests.process_group.example_calls import EXAMPLES, Call

SCRIPTS = Path(__file__).parents[2] / "examples/scripts"
TORCHRUN = ["torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node"]
LAUNCHES = [(name, ranks) for name in EXAMPLES for ranks in (2, 4)]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory):
    """(name, ranks) -> its `captured_calls`, of one launch."""
    folder = tmp_path_factory.mktemp("captured")

    @cache
    def capture(name: str, ranks: int) -> pl.DataFrame:
        file = folder / f"{name}-{ranks}.parquet"
        command = [sys.executable, "-m", "overlayccl_core.cli.main", "capture", "--output", str(file), "--"]
        command += [sys.executable, "-m", *TORCHRUN, str(ranks), str(SCRIPTS / f"{name}.py")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert not ended.returncode, ended.stdout[-2000:] + ended.stderr[-2000:]
        return pl.read_parquet(file)

    return capture


def code(line: str) -> str:
    """The text of `file:line`."""
    file, _, number = line.rpartition(":")
    return Path(file).read_text().splitlines()[int(number) - 1].strip() if file else ""


def seen(row: dict, like: Call) -> Call:
    return Call(
        row["kind"],
        row["dtype"],
        row["inputs_bytes"] if like.given >= 0 else -1,
        row["outputs_bytes"] if like.taken >= 0 else -1,
        code(row["line"]),
        row["part"],
        tuple(row["depends_on"] or ()),
        row["reduction"],
        row["root"] if row["peer"] is None else row["peer"],
    )


PROBLEMS = {  # of two ranks, all calls together; None: it stays as it is
    "ddp": {"grad_ar": 6, "captured": 2, None: 4},  # the average; broadcasts of buffers
    "fsdp2": {"fsdp_prefetch": 22, "captured": 2},  # the norm of the gradients
    "tensor_parallel": {"layer_block_ar": 16},
    "dtensor": {"captured": 102},
    "pipeline": {"pp_send_recv": 16},
    "moe": {"alltoallv": 8, "grad_ar": 16, None: 2},  # the counts
    "ring_attention": {"ring_kv": 32, "grad_ar": 2},
    "zero1": {"grad_ar": 4, None: 12},  # broadcasts of parameters
}


@pytest.mark.ranks
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_call_is_of_its_problem_or_stays(captured, name: str) -> None:
    found = fits(captured(name, 2))
    assert dict(found.group_by("problem").len().iter_rows()) == PROBLEMS[name]


@pytest.mark.ranks
def test_calls_with_splits_may_differ_by_rank_and_dtensors_lists_of_one_do_not(captured) -> None:
    experts, dtensor = captured("moe", 2), captured("dtensor", 2)
    assert not experts.filter(pl.col("input_splits").is_not_null())["uniform"].any()
    assert dtensor["uniform"].all() and dtensor.filter(kind="all_gather").height


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "ranks"), LAUNCHES, ids=[f"{name}-{ranks}" for name, ranks in LAUNCHES])
def test_the_captured_step_is_the_one_written_by_hand(captured, name: str, ranks: int) -> None:
    table = captured(name, ranks)
    for rank in range(ranks):
        step = table.filter(pl.col("rank") == rank, pl.col("depends_on").is_not_null()).to_dicts()
        expected = EXAMPLES[name](rank, ranks)
        empty = Call("", "", 0, 0, "")
        found = [seen(row, expected[at] if at < len(expected) else empty) for at, row in enumerate(step)]
        assert found == expected, f"rank {rank}"
        assert all(row["group_ranks"] == list(range(ranks)) for row in step)
