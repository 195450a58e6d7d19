"""The `overlayccl` command: exit codes, one message for each mistake, and what is said before and after a run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.table import write
from overlayccl_core.tables.theta import THETA
from tests.cli.repository import REPOSITORY, Call, fitted
from tests.fake_timings import FINGERPRINT
from tests.rows import row

A2A = ("--problem", "uniform_a2a")


@pytest.mark.parametrize("arguments", ["schema config", "problems", "why"])
def test_output_that_nobody_reads_ends_the_command_without_a_word(arguments: str) -> None:
    """What is printed, what rich prints, and what a process of the command's own prints."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "overlayccl_core.cli.main", *arguments.split()]
    with os.fdopen(writes, "w") as closed:
        done = subprocess.run(command, cwd=REPOSITORY, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_every_command_has_its_help_and_loads_nothing_that_draws() -> None:
    """Of a process of its own: tests have loaded all. Its text is the docstring of its module."""
    code = (
        "import sys; from overlayccl_core.cli.main import main; print([m for m in ('altair', 'vl_convert') if m in "
        "sys.modules]); main(['prove', '--help'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    loaded, _, said = done.stdout.partition("\n")
    assert loaded == "[]"
    assert said.startswith("usage: overlayccl prove ") and "\nProve that a strategy gives" in said


def test_prove_says_yes_with_exit_code_0(call: Call, root: Path) -> None:
    done = call("prove", f"{root}/mine.py::exchange", *A2A)
    assert done.code == 0 and done.out.count("proven, exact") == 2


@pytest.mark.parametrize("command", ["prove", "score", "try"])
def test_a_wrong_strategy_gets_exit_code_1_a_counterexample_and_no_price(
    call: Call, root: Path, command: str
) -> None:
    done = call(command, f"{root}/mine.py::keep", *A2A, "--case", "n4-64KiB-f32")
    assert done.code == 1
    for part in ("wrong_value", "received on rank", "expected send[", "got send[", "a collective is missing"):
        assert part in done.words
    for part in ("yours", "x developer", "predicted ms"):
        assert part not in done.words
    assert (command == "score") or "(--case): uniform_a2a/" in done.words


@pytest.mark.parametrize("command", ["prove", "try"])
@pytest.mark.parametrize(
    ("source", "line", "why"),
    [
        ("def mine(io, p):\n    while True:\n        pass\n", "line 2", "while is not"),
        (
            "def mine(io, p):\n    io.write('received', p.nothing)\n",
            "line 2, in mine, at uniform_a2a/",
            "no param",
        ),
    ],
    ids=["not in the language", "no Program"],
)
def test_what_is_no_program_gives_file_line_function_case_and_reason(
    call: Call, tmp_path: Path, command: str, source: str, line: str, why: str
) -> None:
    (tmp_path / "mine.py").write_text(source)
    message = call(command, f"{tmp_path}/mine.py", *A2A).message(1)
    assert f"{tmp_path}/mine.py, {line}" in message and why in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("prove nowhere.py::f --problem tp_mlp", "no such file"),
        ("prove {root}/mine.py::kept --problem tp_mlp", "one of: exchange, keep"),
        ("prove {root}/mine.py::keep --problem tp_mpl", "did you mean 'tp_mlp'"),
        ("prove {root}::f --problem tp_mlp", "is a directory"),
        ("prove {root}/binary.py::f --problem tp_mlp", "binary.py: is not a text"),
        ("prove {root}/mine.py::keep --problem tp_mlp --case n8", "no Case 'n8' of tp_mlp"),
        ("trace flat --problem grad_ar --case-json {", "--case-json: not readable as JSON"),
        ("trace flat --problem grad_ar --case-json [1]", "--case-json: must be a mapping"),
        ('trace flat --problem grad_ar --case-json {"sizes":[0]}', "--case-json: grad_ar: sizes.0: "),
        (
            'trace flat --problem grad_ar --case-json {"sizes":[4],"ranks":3}',
            "--case-json: ranks must divide",
        ),
        *((f"try nowhere.py --problem tp_mlp --seconds={s}", "--seconds must") for s in ("0", "nan", "inf")),
        ("doctor --deployment trn9", "no deployment 'trn9'"),
        ("doctor --mend", "name it with --profile"),
        ("doctor --root {root}/config", "config.yaml"),
    ],
)
def test_wrong_arguments_give_one_message(call: Call, root: Path, arguments: str, message: str) -> None:
    (root / "binary.py").write_bytes(b"\xff\xfe\x00")
    assert message in call(*arguments.replace("{root}", str(root)).split()).message(2)


def test_before_a_run_there_is_one_message_with_what_to_run(call: Call, bare: Path) -> None:
    (bare / "sizes.txt").write_text("head 256x128\n")
    asked = ("--root", str(bare), "--deployment", "local-2", "--preset", "smoke")
    tree, run = "results/local-2-smoke", "--config deployment=local-2 preset=smoke"
    theta = f"Run: snakemake --profile local {tree}/theta.parquet {run}"
    for arguments, message in (
        ("explain", f"{tree}: nothing is chosen yet: run snakemake --profile local all {run}"),
        ("summary", f"{tree}: no summary yet: run snakemake --profile local all {run}"),
        ("score native --problem uniform_a2a", theta),
        (f"bucket --sizes {bare}/sizes.txt", theta),
        ("ask --problem grad_ar --dry-run", theta),
        (
            "prove found-0123abcd --problem uniform_a2a",
            f"{tree}/problems/uniform_a2a/search/offline/candidates.parquet {run}",
        ),
    ):
        assert message in call(*arguments.split(), *asked).message(2)
    done = call("doctor", *asked)
    assert done.code == 0 and "torch" in done.out and "2 ranks on" in done.words
    assert f"--profile local all {run}" in done.words


def test_a_damaged_table_gives_one_message_with_the_mend(call: Call, bare: Path) -> None:
    folder = bare / "results" / "local"
    folder.mkdir(parents=True)
    (folder / "capabilities.parquet").write_bytes(b"PAR1 and then nothing")
    done = call("prove", f"{bare}/mine.py::exchange", *A2A, "--root", str(bare))
    assert "Make it again: snakemake" in done.message(2)


def test_summary_prints_strategies_and_how_right_the_model_was(call: Call, bare: Path) -> None:
    fitted(bare)
    common = {
        "problem": "uniform_a2a",
        "case": "uniform_a2a/n4-64KiB-f32",
        "proof": "pass",
        "numerics": "exact",
        "status": "program",
        "validity": "valid",
        "direction": "forward",
        "chosen": False,
        "fingerprint": FINGERPRINT,
        "program": None,
    }
    figures = {"measured_us": 4321.0, "measured_low_us": 4000.0, "measured_high_us": 4600.0}
    itself = {"speedup": 1.0, "speedup_low": 1.0, "speedup_high": 1.0}
    none = dict.fromkeys(("speedup_low", "speedup_high"))
    rows = [
        row(SUMMARY, **(common | figures | itself), candidate="developer", role="developer"),
        row(
            SUMMARY, **(common | {"chosen": True} | figures | none), candidate="found-0123abcd", speedup=1.29
        ),
    ]
    write(SUMMARY, rows, bare / "results/local/summary.parquet")
    (bare / "results/local/deploy").mkdir()
    (bare / "results/local/deploy/uniform_a2a.json").write_text('{"module": "0f"}')
    done = call("summary", "--all", "--root", str(bare))
    assert done.code == 0, done.err
    for part in (
        *("uniform_a2a/n4-64KiB-f32", "developer", "4.32 (4..4.6)", "held-out mixed"),
        *("1.29 (too few", "chosen: found-0123abcd"),
        *("More ranks than cores: ", "probe 4 of 12", "probes of the fit 4 of", "more probe.seconds"),
    ):
        assert part in done.words
    unbroken = "".join(done.words.split())  # the line of a long path ends in its middle
    assert "deploy/uniform_a2a.pyisgone" in unbroken
    assert "/report.html.Modules:" in unbroken and unbroken.endswith("/deploy/.")


def test_try_prices_by_term_beside_the_known_ways_and_says_why_one_has_no_price(
    call: Call, bare: Path
) -> None:
    fitted(bare)
    tried = ("try", f"{bare}/mine.py::exchange", *A2A, "--no-measure", "--root", str(bare))
    done = call(*tried)
    assert done.code == 0, done.err
    for part in ("proven, exact", "yours", "developer", "amortizati", "collectives"):
        assert part in done.words
    assert "No price" not in done.words
    path = bare / "results/local/theta.parquet"
    unknown = {"value": None, "low": None, "high": None, "status": "unidentified"}
    rows = [
        one | unknown if "all_to_all" in one["feature"] else one for one in pl.read_parquet(path).to_dicts()
    ]
    write(THETA, rows, path)
    done = call(*tried)
    assert done.code == 0, done.err
    assert "No price for exchange" in done.words and "no theta for all_to_all" in done.words


@pytest.mark.ranks
def test_try_measures_beside_the_known_ways_without_a_theta(call: Call, bare: Path) -> None:
    done = call("try", f"{bare}/mine.py::exchange", *A2A, "--seconds", "4", "--root", str(bare))
    assert done.code == 0, done.err
    assert "1.00 (1.00..1.00)" not in done.words  # the developer over itself
    assert "results/local/theta.parquet" in done.words
    assert not (bare / "results/local/.partial").exists()  # it measures anew each time, and leaves nothing


def test_what_is_not_linear_is_proven_on_the_data_tried_and_says_so(call: Call) -> None:
    entry = json.dumps(catalog.plug_in("dist_ce").examples(4)["small"])
    done = call("prove", "three_all_reduce", "--problem", "dist_ce", "--case-json", entry)
    assert done.code == 0 and "proven on the data tried" in done.words and "values)" in done.words
