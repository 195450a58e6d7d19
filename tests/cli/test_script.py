"""A script with the calls that a run deployed: which calls, how it is started, and how it compares with itself."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.cli import compare_script, main, script
from overlayccl_core.configuration.captured import KEPT, fields_of
from overlayccl_core.configuration.presets import FILE, OwnPreset
from overlayccl_core.observing.compared import Launched
from overlayccl_core.process_group.parts import ways_digest
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.script_steps import SCRIPT_STEPS
from overlayccl_core.tables.table import read, write
from tests.observing.captured_rows import call, step, summed
from tests.process_group.proven_ways import write_ways
from tests.rows import row

SCRIPTS = Path(__file__).parents[2] / "examples/scripts"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
SUM, CASE = ("all_reduce_sum", 16384), "captured/n2-all_reduce_sum-16384-f32"


def tree(root: Path, *placed: tuple[str, dict, str, str | None]) -> Path:
    """Results of a run: (Case, its parameters, arm, what took its place) of each Case, and the deployed module."""
    folder = root / "results/local-2-calls"
    (folder / "deploy").mkdir(parents=True)
    write_ways(root / "ways", [SUM])
    (root / "ways/captured.py").rename(folder / "deploy/captured.py")
    at = {
        "problem": "captured",
        "ranks": 2,
        "groups": 1,
        "strided": False,
        "ranks_per_node": 2,
        "dtype": "float32",
    }
    cases = [row(CASES, case=case, parameters=json.dumps(of), uniform=False, **at) for case, of, *_ in placed]
    low = {"noise": 0.9}
    fixed = {"problem": "captured", "direction": "forward", "trained_in": None}
    deployed = [
        row(DEPLOYED, case=case, arm=arm, instead=other, speedup_low=low.get(case, 1.1), **fixed)
        for case, _, arm, other in placed
    ]
    flight = {"used_us": 25.0}  # before the last is issued, at 30
    script_calls = [summed(16384), summed(4, **flight), summed(5, **flight), summed(6)]
    script_calls += [call("broadcast", root=0), summed(7), summed(8, 5, line="/my/train.py:31")]
    write(CAPTURED_CALLS, step(script_calls, 2), folder / KEPT)
    asked = fields_of(read(CAPTURED_CALLS, folder / KEPT))
    (folder / FILE).write_text(OwnPreset(deployment="local-2", name="calls", fields=asked).text)
    write(CASES, cases, folder / "problems/captured/cases.parquet")
    write(DEPLOYED, deployed, folder / "deployed.parquet")
    return folder


def calls(*elements: int, after: tuple[int, ...] = ()) -> dict:
    return {
        "kinds": [0] * len(elements),
        "sizes": list(elements),
        "after": list(after or [0] * len(elements)),
    }


def test_a_call_has_a_way_where_the_plain_one_does_not_stand(tmp_path: Path) -> None:
    run = tree(
        tmp_path,
        (CASE, calls(16384), "best_known_way", None),
        ("plain", calls(1), "developer", None),
        ("noise", calls(3), "finalist_1", None),
        ("placed", calls(2), "finalist_1", "developer"),
        ("together", calls(4, 5), "finalist_1", None),
        ("one by one", calls(16384, 4, 5, 6), "finalist_1", None),
        ("chain", calls(7, 8, after=(0, 1, 0)), "finalist_1", None),
    )
    key = ["all_reduce", "sum", "float32"]
    ways = script.ways_of(run)
    ways.lay(tmp_path)
    assert json.loads((tmp_path / "ways.json").read_text()) == [
        {"key": [*key, 16384, 2, 1, 1], "case": CASE},
        {"bundle": [[*key, 4, 2, 1, 1], [*key, 5, 2, 1, 1]], "case": "together"},
    ]
    one_by_one, chain, noise = ways.others
    assert ways.ranks == 2 and 'connect("one by one")' in one_by_one and "1 of 7 Cases" in noise
    assert 'connect("chain")' in chain and chain.endswith("at train.py:1, train.py:31")
    (run / "preset.yaml").write_text("problems: [captured]")
    with pytest.raises(ValueError, match=r"its preset is of other calls than those in captured_calls"):
        script.ways_of(run)
    with pytest.raises(ValueError, match=r"no deployed module of captured calls: .*captured="):
        script.ways_of(tmp_path / "nothing")


def test_the_folder_for_a_cluster_has_all_that_ranks_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, folder = tree(tmp_path, (CASE, calls(16384), "best_known_way", None)), tmp_path / "export"
    assert main.main(["run", "--ways", str(run), "--export", str(folder)]) == 0
    assert {"captured.py", "ways.json", "overlayccl_group"} <= {one.name for one in folder.iterdir()}
    assert main.main(["run", "--ways", str(run), "--export", str(folder)]) == 2
    assert main.main(["run", "--ways", str(run)]) == 2 and "no command" in capsys.readouterr().err


def test_what_a_script_found_while_it_trained_are_ways_for_the_next(tmp_path: Path) -> None:
    keys = [["all_reduce", "sum", "float32", elements, 2, 1, 1] for elements in (1, 2, 3)]
    arms = [["plain", "as_written", 1], ["ring", "ring", 1]]
    rows = [{"key": key, "case": f"case {number}", "ways": arms} for number, key in enumerate(keys)]
    (tmp_path / "captured.py").write_text("")
    (tmp_path / "ways.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match=r"nothing was found about these ways yet: .* train longer"):
        script.ways_of(tmp_path)
    where = {"ways": ways_digest([(tmp_path / n).read_bytes() for n in ("captured.py", "ways.json")])}
    calls_found = [({"a": (0, "ring"), "b": (1, "plain")}, 0), ({"c": (0, "plain")}, 10)]
    for found, rank in calls_found:
        told = {name: {"key": keys[at], "way": way, "done": name == "a"} for name, (at, way) in found.items()}
        file = tmp_path / f"tuned-{rank}.json"
        file.write_text(json.dumps({"where": {**where, "world_size": 12}, "calls": told}))
    ways = script.ways_of(tmp_path)
    assert [dict(one) for one in ways.rows] == [{"key": tuple(keys[0]), "case": "case 0", "way": "ring"}]
    assert ways.ranks == 12 and ways.others == ["2 of 3 calls had not tried all ways: train longer"]
    (tmp_path / "captured.py").write_text("# another")
    with pytest.raises(ValueError, match="nothing was found about these ways yet"):
        script.ways_of(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("tuned-0.json", "{}", r"tuned-0.json is damaged \(KeyError\('where'\)\): remove it"),
        (
            "tuned-0.json",
            '{"where": {"wa',
            r"tuned-0.json is damaged .*`overlayccl run --online CALLS --keep",
        ),
        ("tuned-0.json", "[]", r"tuned-0.json is damaged"),
        ("ways.json", '[{"key": ["all_red', r"ways.json is damaged .*: remove it"),
        ("ways.json", '[{"key": ["sum"], "case": "a"}]', r"ways.json is damaged"),
        ("captured.py", None, r"no captured.py beside ways.json: `overlayccl run --online CALLS --keep"),
    ],
)
def test_what_a_script_found_is_whole_or_the_file_is_named(
    tmp_path: Path, file: str, text: str | None, said: str
) -> None:
    (tmp_path / "captured.py").write_text("")
    (tmp_path / "ways.json").write_text("[]")
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        script.ways_of(tmp_path)


def test_the_folder_of_what_was_found_is_of_one_step_and_says_if_nothing_of_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "found"

    def ran(elements: int) -> tuple[int, str]:
        write(CAPTURED_CALLS, step([summed(elements)], 2), tmp_path / "calls.parquet")
        words = [
            "--deployment",
            "local-2",
            "--online",
            str(tmp_path / "calls.parquet"),
            "--keep",
            str(folder),
        ]
        return main.main(["run", *words, "--", "true"]), capsys.readouterr().err

    assert ran(16384)[0] == 0
    written = {file.name: file.read_text() for file in folder.iterdir()}
    (folder / "tuned-0.json").write_text("{}")
    assert "all ways are tried anew" not in ran(16384)[1], "the same ways"
    code, said = ran(64)
    assert code == 2 and "has the ways of other calls: name another folder, or remove this one" in said
    assert {name: (folder / name).read_text() for name in written} == written
    (folder / "captured.py").write_text("# of another torch")
    assert "of other ways or another torch: all ways are tried anew" in ran(16384)[1]
    assert {file.name for file in folder.iterdir()} == {"captured.py", "ways.json", "tuned-0.json"}
    monkeypatch.chdir(tmp_path)
    assert "or name it with --root FOLDER" in ran(16384)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ways", "run", "--online", "calls.parquet"], "give one of the two"),
        (["--keep", "found"], "--keep is for what --online finds"),
        (["--online", "calls.parquet", "--export", "folder"], "--export is for --ways"),
        (["--online", "nothing.parquet"], "nothing.parquet"),
        (["--online", "README.md"], "not Parquet. Make it again: overlayccl capture -- COMMAND"),
        (
            ["--online", "calls.parquet"],
            "it was captured on 2 ranks, and deployment local has 4: name one of 2",
        ),
        (
            ["--deployment", "local-2", "--online", "calls.parquet", "--keep", "run"],
            "has the results of a run",
        ),
    ],
)
def test_what_does_not_go_together_is_said(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(CAPTURED_CALLS, step([summed(16384)], 2), tmp_path / "calls.parquet")
    (tmp_path / "run/deploy").mkdir(parents=True)
    there = [str(tmp_path / word) if word in ("calls.parquet", "run") else word for word in words]
    script = [] if "--export" in words else ["--", "true"]
    assert main.main(["run", *there, *script]) == 2 and said in capsys.readouterr().err
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["deploy"]


def test_a_script_runs_to_its_own_end(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["run", "--", sys.executable, "-c", "import torch; raise SystemExit(7)"]) == 7
    assert main.main(["run", "--", "no-such-program"]) == 2
    assert "no-such-program does not start" in capfd.readouterr().err


def test_a_module_that_was_not_timed_is_refused(tmp_path: Path) -> None:
    run = tree(tmp_path, (CASE, calls(16384), "best_known_way", None))
    (run / "deploy/captured.json").write_text(json.dumps({"module": "another"}))
    with pytest.raises(ValueError, match=r"captured.py: not the module that was timed"):
        script.ways_of(run)


@pytest.mark.parametrize(
    ("chosen", "is_laid"),
    [
        ({"speedup_low": 1.03}, True),
        ({"speedup_low": 1.01}, False),  # not faster beyond noise
        ({"arm": "developer", "instead": "best_known_way", "gain_high": 0.5}, True),
        ({"instead": "best_known_way", "speedup_low": 1.2, "gain_high": 0.9}, True),
        ({"instead": "best_known_way", "speedup_low": 0.8, "gain_high": 0.9}, False),
        ({"instead": "torch_ddp", "speedup_low": 1.2, "gain_high": 0.9}, False),  # never timed beside it
    ],
)
def test_what_is_laid_is_faster_than_the_scripts_own_call(
    tmp_path: Path, chosen: dict, is_laid: bool
) -> None:
    run = tree(tmp_path, (CASE, calls(16384), "finalist_1", None))
    table = read(DEPLOYED, run / "deployed.parquet").to_dicts()
    write(DEPLOYED, [{**table[0], "best_other": "best_known_way", **chosen}], run / "deployed.parquet")
    assert bool(script.ways_of(run).rows) == is_laid


def test_ways_of_other_calls_are_said_to_be_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERLAYCCL_STEPS", "3 /nowhere")  # of another command
    run = tree(tmp_path, (CASE, calls(16384), "best_known_way", None))
    alone = (
        "d.init_process_group('gloo', store=d.HashStore(), rank=0, world_size=1); d.destroy_process_group()"
    )
    command = [sys.executable, "-c", f"import torch.distributed as d; {alone}"]
    assert main.main(["run", "--ways", str(run), "--", *command]) == 0
    assert "no call was made in a proven way" in capfd.readouterr().err


def launches(
    monkeypatch: pytest.MonkeyPatch, tuned: list[float], *, ranks: int = 2, made: bool = True
) -> Callable[..., dict[int, Launched]]:
    """Launches of a script without ranks: of each pair, the last loss in tuned mode; 0.5 in plain mode."""
    left = iter(tuned)

    def launch(command: object, folder: Path, name: str, mode: str, steps: int) -> dict[int, Launched]:
        plain = mode == compare_script.PLAIN
        losses = [[1.0]] * (steps - 1) + [[0.5 if plain else next(left)]]
        took = 2e6 if plain else 1e6
        one = Launched(
            ends=[int(took * n) for n in range(steps)],
            losses=losses,
            made={CASE: steps} if made and not plain else {},
            numerics={CASE: "reordered"},
        )
        return dict.fromkeys(range(2 if plain else ranks), one)

    return launch


@pytest.mark.parametrize(
    ("losses", "code", "said"),
    [
        ([0.5, 0.5, 0.5], 0, "losses: equal to the last bit"),
        ([0.5, 0.50001, 0.5], 0, "losses: differ by 2.0e-05"),
        ([0.5, 0.5, 0.6], 1, "LOSSES DIFFER by 1.7e-01"),
        ([0.5, float("nan"), 0.5], 1, "LOSSES DIFFER by inf"),
    ],
)
def test_losses_of_all_pairs_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    losses: list[float],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare_script, "FEWEST_PAIRS", 3)
    monkeypatch.setattr(compare_script, "_launch", launches(monkeypatch, losses))
    run = tree(tmp_path, (CASE, calls(16384), "best_known_way", None))
    assert compare_script.compare([], run, Path("steps.parquet"), steps=6, minutes=0) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"ranks": 1}, r"1 ranks of the tuned script came to the end, and .* is of 2"),
        ({"made": False}, r"no call of the script was made in a way"),
    ],
)
def test_launches_that_say_nothing_of_the_ways_are_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: dict, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare_script, "_launch", launches(monkeypatch, [0.5], **of))
    run = tree(tmp_path, (CASE, calls(16384), "best_known_way", None))
    with pytest.raises(ValueError, match=said):
        compare_script.compare([], run, Path("steps.parquet"), steps=6, minutes=0)
    with pytest.raises(ValueError, match="at least 5"):
        compare_script.compare([], run, Path("steps.parquet"), steps=3, minutes=0)


@pytest.mark.ranks
def test_a_script_is_compared_with_itself_in_pairs_of_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare_script, "FEWEST_PAIRS", 3)
    run = tree(tmp_path, (CASE, calls(16384), "best_known_way", None))
    command = [*TORCHRUN, "--nproc-per-node", "2", str(SCRIPTS / "tensor_parallel.py")]
    options = ["--compare", str(run), "--steps", "6", "--minutes", "0", "--output", "steps.parquet"]
    assert main.main(["capture", *options, "--", *command]) == 0
    said = capfd.readouterr().out
    assert f"8.0 calls a step by {CASE} (" in said and "losses: " in said and "(3 pairs of launches)" in said
    steps = read(SCRIPT_STEPS, "steps.parquet")
    assert steps.group_by("pair", "mode", "rank").len()["len"].to_list() == [6] * 3 * 2 * 2
    assert steps.filter(pl.col("losses").list.len() != 1).is_empty()
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(".overlayccl")]
