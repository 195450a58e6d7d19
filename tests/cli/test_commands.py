"""The `overlayccl` command as people call it: real processes, their exit codes and what they say."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Role
from overlayccl_core.probes.structured import structured_probes
from overlayccl_core.stages import fit
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.sidecar import write_sidecar
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.table import write
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import FINGERPRINT, timing_columns

REPOSITORY = Path(__file__).parents[2]
STRATEGIES = '''from overlayccl_core.program.language import all_to_all


def exchange(io, p):
    """The library's own."""
    io.write("received", all_to_all(io.read("send")))


def keep(io, p):
    """Forgets to send."""
    io.write("received", io.read("send"))
'''
ENDLESS = """def endless(io, p):
    while True:
        pass
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with this one's configuration and no results."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    (tmp_path / "mine.py").write_text(STRATEGIES)
    return tmp_path


def overlayccl(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overlayccl_core.cli.main", "--root", str(root), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    )


@pytest.mark.parametrize("arguments", ["schema config", "problems", "doctor", "why"])
def test_output_that_nobody_reads_ends_the_command_without_a_word(arguments: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "overlayccl_core.cli.main", *arguments.split()]
    with os.fdopen(writes, "w") as closed:
        done = subprocess.run(command, cwd=REPOSITORY, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def one_message(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Its message, when there is one line and no traceback."""
    assert done.returncode == code, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("overlayccl: "), done.stderr
    return lines[0]


def fitted(root: Path) -> None:
    """What a run leaves behind, from timings of a known theta."""
    folder = root / "results" / "local"
    folder.mkdir(parents=True)
    for table in (PROBES, THETA, FIDELITY):
        write(table, _fitted()[table.name], folder / f"{table.name}.parquet")
    command = ("--settings", read(root / "config/config.yaml").part("probe"))
    now = datetime(2026, 1, 2, tzinfo=UTC)
    write_sidecar(folder / "probes.parquet", inputs=(), command=command, started=now, ended=now)


@cache
def _fitted() -> Mapping[str, Any]:
    deployment = load(REPOSITORY / "config/deployments/local.yaml")
    probes = structured_probes(deployment) + mixed_probes(deployment, seed=1, count=20, role=Role.MIXED)
    probes += mixed_probes(deployment, seed=2, count=8, role=Role.HELD_OUT)
    rows = [{"probe": p.name, "role": p.role.value, **timing_columns(p.program, rounds=4)} for p in probes]
    settings = read(REPOSITORY / "config/config.yaml")
    return {"probes": rows, **fit.run(settings, pl.DataFrame(rows), progress=lambda _: None)}


def test_prove_says_yes_with_exit_code_0(root: Path) -> None:
    done = overlayccl(root, "prove", f"{root}/mine.py::exchange", "--problem", "uniform_a2a")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("proven, exact") == 2


def test_prove_says_no_with_exit_code_1_and_a_counterexample(root: Path) -> None:
    done = overlayccl(
        root, "prove", f"{root}/mine.py::keep", "--problem", "uniform_a2a", "--case", "n4-64KiB-f32"
    )
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    for part in (
        "received on rank",
        "element",
        "expected send[",
        "got send[",
        "input send is written as it is: a collective is missing",
    ):
        assert part in text


def test_a_strategy_that_is_not_in_the_language_gives_line_and_reason(root: Path) -> None:
    (root / "endless.py").write_text(ENDLESS)
    done = overlayccl(root, "prove", f"{root}/endless.py", "--problem", "uniform_a2a")
    message = one_message(done, 1)
    assert f"{root}/endless.py, line 2" in message and "while is not" in message


def test_a_strategy_that_is_no_program_gives_file_line_function_and_case(root: Path) -> None:
    (root / "div.py").write_text("def div(io, p):\n    io.write('received', p.nothing)\n")
    for command in ("prove", "try"):
        done = overlayccl(root, command, f"{root}/div.py", "--problem", "uniform_a2a")
        message = one_message(done, 1)
        assert all(part in message for part in (f"{root}/div.py, line 2", "at uniform_a2a/", "no parameter"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py::f", "--problem", "tp_mlp"), "no such file"),
        (("{root}/mine.py::kept", "--problem", "tp_mlp"), "one of: exchange, keep"),
        (("{root}/mine.py::keep", "--problem", "tp_mpl"), "did you mean 'tp_mlp'"),
        (("nowhere.py::f", "--problem", "tp_mpl"), "did you mean 'tp_mlp'"),
        (("{root}::f", "--problem", "tp_mlp"), "is a directory"),
        (("{root}/binary.py::f", "--problem", "tp_mlp"), "binary.py: is not a text"),
        (("{root}/mine.py::keep", "--problem", "tp_mlp", "--case", "n8"), "no Case 'n8' of tp_mlp"),
    ],
)
def test_wrong_arguments_give_one_message(root: Path, arguments: tuple[str, ...], message: str) -> None:
    (root / "binary.py").write_bytes(b"\xff\xfe\x00")
    done = overlayccl(root, "prove", *(a.format(root=root) for a in arguments))
    assert message in one_message(done, 2)


def test_an_unknown_deployment_gives_one_message(root: Path) -> None:
    assert "no deployment 'trn9'" in one_message(overlayccl(root, "--deployment", "trn9", "doctor"), 2)


def test_a_folder_without_configuration_gives_one_message(tmp_path: Path) -> None:
    assert "config.yaml" in one_message(overlayccl(tmp_path, "doctor"), 2)


def test_a_damaged_table_gives_one_message_with_the_mend(root: Path) -> None:
    folder = root / "results" / "local"
    folder.mkdir(parents=True)
    (folder / "capabilities.parquet").write_bytes(b"PAR1 and then nothing")
    done = overlayccl(root, "prove", f"{root}/mine.py::exchange", "--problem", "uniform_a2a")
    assert "Make it again: snakemake" in one_message(done, 2)


def test_doctor_tells_what_there_is_and_what_to_run(root: Path) -> None:
    done = overlayccl(root, "doctor")
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout and "4 ranks on" in done.stdout
    assert "--profile local all" in done.stdout


def test_summary_before_a_run_says_what_to_run(root: Path) -> None:
    message = one_message(overlayccl(root, "summary"), 2)
    assert "no summary yet" in message and "--profile local all" in message


def test_summary_prints_strategies_and_how_right_the_model_was(root: Path) -> None:
    fitted(root)
    columns = {c.name: None for c in SUMMARY.columns}
    common = {
        **columns,
        "problem": "uniform_a2a",
        "case": "uniform_a2a/n4-64KiB-f32",
        "proof": "pass",
        "numerics": "exact",
        "status": "program",
        "validity": "valid",
        "direction": "forward",
        "chosen": False,
        "fingerprint": FINGERPRINT,
    }
    figures = {"measured_us": 4321.0, "measured_low_us": 4000.0, "measured_high_us": 4600.0}
    itself = {"speedup": 1.0, "speedup_low": 1.0, "speedup_high": 1.0}
    ratio = {"speedup": 1.29}
    rows = [
        {**common, "candidate": "developer", "role": "developer", **figures, **itself},
        {**common, "candidate": "native", "role": "other", "validity": "unmeasured"},
        {**common, "candidate": "found-0123abcd", "role": "found", "chosen": True, **figures, **ratio},
    ]
    write(SUMMARY, rows, root / "results/local/summary.parquet")
    (root / "results/local/deploy").mkdir()
    (root / "results/local/deploy/uniform_a2a.json").write_text('{"module": "0f"}')
    done = overlayccl(root, "summary", "--all")
    assert done.returncode == 0, done.stderr
    for part in (
        "uniform_a2a/n4-64KiB-f32",
        "developer",
        "4.32 (4..4.6)",
        "held-out mixed Programs",
        "1.29 (too few rounds)",
        "chosen: found-0123abcd",
    ):
        assert part in done.stdout
    assert "1.00 (1.00..1.00)" not in done.stdout  # a baseline is not compared with itself
    words = " ".join(done.stdout.split())
    for part in ("Oversubscribed: ", "probe 4 of 25", "probes of the fit 4 of", "more probe.seconds"):
        assert part in words
    unbroken = "".join(words.split())  # the line of a long path ends in its middle
    assert "deploy/uniform_a2a.pyisgone" in unbroken
    assert "/report.html.Modules:" in unbroken and unbroken.endswith("/deploy/.")


def test_try_prices_by_term_beside_the_known_ways(root: Path) -> None:
    fitted(root)
    done = overlayccl(root, "try", f"{root}/mine.py::exchange", "--problem", "uniform_a2a", "--no-measure")
    assert done.returncode == 0, done.stderr
    for part in ("proven, exact", "yours", "developer", "amortization", "collectives"):
        assert part in done.stdout
    assert "No prices" not in done.stdout


def test_try_of_a_wrong_strategy_shows_the_counterexample_and_exits_1(root: Path) -> None:
    done = overlayccl(root, "try", f"{root}/mine.py::keep", "--problem", "uniform_a2a")
    assert done.returncode == 1
    assert "wrong_value" in done.stdout
    for part in ("yours", "x developer", "predicted ms"):
        assert part not in done.stdout
    assert "keep at uniform_a2a/" in done.stdout and "(--case): uniform_a2a/" in done.stdout


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf"])
def test_try_refuses_a_time_that_is_none_at_once(root: Path, seconds: str) -> None:
    done = overlayccl(root, "try", "nowhere.py", "--problem", "tp_mlp", f"--seconds={seconds}")
    assert "--seconds must" in one_message(done, 2)


def test_a_known_way_without_a_price_says_why(root: Path) -> None:
    fitted(root)
    path = root / "results/local/theta.parquet"
    unknown = {"value": None, "low": None, "high": None, "status": "unidentified"}
    rows = [
        row | unknown if "all_to_all" in row["feature"] else row for row in pl.read_parquet(path).to_dicts()
    ]
    write(THETA, rows, path)
    done = overlayccl(root, "try", f"{root}/mine.py::exchange", "--problem", "uniform_a2a", "--no-measure")
    assert done.returncode == 0, done.stderr
    assert "No price for exchange" in done.stdout and "no theta for all_to_all" in done.stdout


@pytest.mark.ranks
def test_try_measures_beside_the_known_ways_without_a_theta(root: Path) -> None:
    done = overlayccl(root, "try", f"{root}/mine.py::exchange", "--problem", "uniform_a2a", "--seconds", "4")
    assert done.returncode == 0, done.stderr
    assert "1.00 (1.00..1.00)" not in done.stdout  # the developer over itself
    assert "results/local/theta.parquet" in done.stdout
    assert not (root / "results/local/.partial").exists()  # it measures anew each time, and leaves nothing


def test_what_is_not_linear_is_proven_on_the_data_tried_and_says_so(root: Path) -> None:
    entry = json.dumps(catalog.plug_in("dist_ce").examples(4)["small"])
    done = overlayccl(root, "prove", "three_all_reduce", "--problem", "dist_ce", "--case-json", entry)
    words = " ".join(done.stdout.split())
    assert done.returncode == 0 and "proven on the data tried" in words and "values)" in words
