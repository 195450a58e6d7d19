"""`overlayccl losses`: a compressor that diverges is refused, one that does not passes; what is no verdict."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.cli import losses, main, run_script
from overlayccl_core.observing.compared import Launched
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.table import read

SCRIPT = Path(__file__).with_name("losses_script.py")
PLAIN = {0: 1.0, 1: 1.1, 2: 1.2, 3: 1.3, 4: 1.4}  # seed -> final loss: half of them are 0.2 apart


def launches(
    monkeypatch: pytest.MonkeyPatch,
    final: Callable[[str, int], float],
    *,
    made: int = 200,
    begun: float = 5.0,
) -> None:
    """Launches without ranks: losses fall from `begun` to `final(mode, seed)` in their last tenth."""

    def timed(
        command: list[str], folder: Path, name: str, variables: dict[str, str], steps: int, mode: str
    ) -> dict[int, Launched]:
        last = final(mode, int(command[-1]))
        one = Launched(
            ends=[int((2e6 if mode == "plain" else 1e6) * step) for step in range(steps)],
            losses=[[begun]] * (steps - steps // 10) + [[last]] * (steps // 10),
            made={"int8 all_reduce": made} if made and "OVERLAYCCL_LOSSY" in variables else {},
            numerics={},
        )
        (folder / name).mkdir()
        for rank in range(2):
            (folder / name / f"rank-{rank}.json").write_text(json.dumps(asdict(one)))
        return {0: one, 1: one}

    monkeypatch.setattr(losses, "timed", timed)


def ran(*options: str) -> int:
    return main.main(["losses", "--lossy", "int8", *options, "--", "train.py", "{seed}"])


@pytest.mark.parametrize(
    ("off", "code", "said"),
    [
        (0.0, 0, "passed: with int8 the final loss is at most 0 away"),
        (0.19, 0, "passed: with int8 the final loss is at most 0.19 away"),
        (0.21, 1, "over 5 seeds allows 0.2"),
        (-0.21, 1, "refused: "),
        (math.nan, 1, "refused: with int8 the final loss is at most nan away"),
        (math.inf, 1, "refused: with int8 the final loss is at most inf away"),
    ],
)
def test_the_final_loss_may_be_as_far_off_as_seeds_are_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    off: float,
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, lambda mode, seed: PLAIN[seed] + (off if mode == "int8" and seed == 3 else 0.0))
    assert ran() == code
    out = capsys.readouterr().out
    assert said in out and "1.0 calls a step by int8 all_reduce" in out and "2.00 (2.00..2.00)" in out


@pytest.mark.parametrize(("begun", "code"), [(1.79, 1), (1.81, 0), (1.0, 1)])
def test_losses_that_training_hardly_changes_decide_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    begun: float,
    code: int,
) -> None:
    """Three times the 0.2 of the seeds below where the plain losses begin: gradients of zeros would pass before."""
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, lambda mode, seed: PLAIN[seed], begun=begun)
    assert ran() == code
    said = capsys.readouterr().out
    assert ("undecided: in 200 steps plain training lowers the loss by" in said) is bool(code)


def test_zeros_near_the_optimum_are_undecided_and_from_afar_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, lambda mode, seed: PLAIN[seed] if mode == "plain" else PLAIN[seed] + 0.1, begun=1.3)
    assert ran() == 1 and "undecided" in capsys.readouterr().out
    launches(monkeypatch, lambda mode, seed: PLAIN[seed] if mode == "plain" else 5.0)
    assert ran() == 1 and "refused" in capsys.readouterr().out


def test_what_stands_beside_has_a_row_and_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, lambda mode, seed: PLAIN[seed] + (9.0 if mode == "HOOK=wrong" else 0.0))
    assert ran("--beside", "HOOK=wrong", "--beside", "HOOK=right", "--output", "all.parquet") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "=" in line]
    assert [(row[0], row[-1]) for row in rows] == [("HOOK=wrong", "refused"), ("HOOK=right", "passed")]
    table = read(SCRIPT_STEPS, "all.parquet")
    assert set(table["mode"]) == {"plain", "int8", "HOOK=wrong", "HOOK=right"}
    assert set(table["pair"]) == set(range(5)) and table.height == 4 * 5 * 200 * 2


@pytest.mark.parametrize(
    ("final", "made", "said"),
    [
        (lambda mode, seed: 1.0, 200, "seeds 0 and 1 gave the same losses: the script takes no seed"),
        (lambda mode, seed: PLAIN[seed], 0, "no sum was compressed: it takes an all_reduce"),
        (lambda mode, seed: math.nan if seed == 2 else PLAIN[seed], 200, "nothing to compare with"),
    ],
)
def test_launches_that_say_nothing_are_no_verdict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    final: Callable[[str, int], float],
    made: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, final, made=made)
    assert ran() == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["losses", "--lossy", "int8", "--", "train.py"],
            "no {seed} in the command: give the script its seed",
        ),
        (["losses", "--lossy", "int4", "--", "train.py", "{seed}"], "lossy 'int4': give bf16 or int8"),
        (["losses", "--lossy", "int8"], "no command"),
        (
            ["losses", "--lossy", "int8", "--steps", "199", "--", "{seed}"],
            "at least 5 --seeds and 200 --steps",
        ),
        (["losses", "--lossy", "int8", "--seeds", "4", "--", "{seed}"], "at least 5 --seeds and 200 --steps"),
        (["losses", "--lossy", "int8", "--beside", "HOOK", "--", "{seed}"], "--beside HOOK: give NAME=VALUE"),
        (["run", "--lossy", "int8", "--export", "folder"], "--lossy needs nothing but OVERLAYCCL_LOSSY"),
        (["run", "--lossy", "int8:", "--", "train.py"], "lossy 'int8:': give bf16 or int8"),
    ],
)
def test_what_does_not_go_together_is_said(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(options) == 2 and said in capsys.readouterr().err


def test_the_same_command_goes_on_behind_a_launch_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kept are ended launches; another command, or a changed script, has none of them."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    launches(monkeypatch, lambda mode, seed: PLAIN[seed])
    whole, starts, fails = losses.timed, [], [True]

    def timed(command: list[str], folder: Path, name: str, *more: Any) -> dict[int, Launched]:
        starts.append(command[-1])
        if fails and len(starts) == 4:
            (folder / name).mkdir()  # as a killed one leaves it
            raise ValueError("the plain script ended with 9 before so many training steps")
        return whole(command, folder, name, *more)

    monkeypatch.setattr(losses, "timed", timed)
    assert ran() == 2
    assert "3 ended launches are kept in" in capsys.readouterr().err and not Path("losses.parquet").exists()
    fails.clear()
    assert ran("--steps", "201") == 0 and len(starts) == 4 + 10
    assert ran() == 2, "losses.parquet is of --steps 201"
    assert "name another file with --output" in capsys.readouterr().err and len(starts) == 4 + 10
    Path("losses.parquet").unlink()
    assert ran() == 0 and len(starts) == 4 + 10 + 7
    assert [one.name for one in tmp_path.glob(".*")] == []
    assert ran() == 0 and len(starts) == 4 + 10 + 7 + 10, "the same command again replaces its own table"


def test_launches_that_say_nothing_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    launches(monkeypatch, lambda mode, seed: 1.0)
    assert ran() == 2 and not list(tmp_path.iterdir())


def test_fewer_bytes_are_for_ranks_that_were_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, str]] = []

    def started(command: list[str], folder: Path, variables: dict[str, str]) -> int:
        told.append(variables)
        return 0

    monkeypatch.setattr(run_script, "started", started)
    assert (
        main.main(["run", "--", "train.py"]) == main.main(["run", "--lossy", "int8:4", "--", "train.py"]) == 0
    )
    assert told == [{}, {"OVERLAYCCL_LOSSY": "int8:4"}]


def test_a_curve_is_of_all_losses_of_a_tenth_of_the_steps() -> None:
    about: dict[str, Any] = {"ends": [], "made": {}, "numerics": {}}
    first = Launched(losses=[[float(step)] for step in range(20)], **about)
    last_stage = Launched(losses=[[] for _ in range(20)], **about)  # of a pipeline: another rank has the loss
    assert losses.curve({0: first, 1: last_stage})[0] == (0.5,)
    assert losses.curve({0: first, 1: first})[-1] == (18.5,)
    with pytest.raises(ValueError, match="the script has no losses"):
        losses.curve({0: last_stage})


@pytest.mark.ranks
def test_the_gate_refuses_a_compressor_that_diverges_and_passes_one_that_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    int8 = {"OVERLAYCCL_LOSSY": "int8"}
    planted = {name: {**int8, "PLANTED": factor} for name, factor in (("threefold", "3"), ("zeros", "0"))}
    modes = {"plain": {}, "int8": int8, **planted}
    command = [sys.executable, str(SCRIPT), "{seed}"]
    found, table = losses.launches(losses.LossTrial(command, modes, 2, 60), Path("losses.parquet"))
    verdicts = losses.judged({mode: losses.evidence(mode, of, table) for mode, of in found.items()})
    said = {mode: losses.sentence(mode, verdict, 2, 60).split(":")[0] for mode, verdict in verdicts.items()}
    assert said == {"int8": "passed", "threefold": "refused", "zeros": "refused"}
    assert table.filter(pl.col("mode") == "int8")["losses"].list.len().unique().to_list() == [1]
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]
