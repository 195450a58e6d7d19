"""`overlayccl estimate`, in a terminal and without one, of deployments whose library is not here."""

import datetime
import shutil
from pathlib import Path

import pytest
import yaml

from overlayccl_core import loader
from overlayccl_core.cli.render import console
from tests.cli.repository import REPOSITORY, Call, Done, too_wide
from tests.report.fixture_tree import write_tree

CLUSTER = """backend: absent
library: any
node: trn1.32xlarge
ranks: 224
ranks_per_node: 32
preset: cluster
memory_budget: 8GiB
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This configuration, and a cluster whose backend cannot even be imported."""
    for folder in ("config", "profiles"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    (tmp_path / "config/deployments/trn1.yaml").write_text(CLUSTER)
    plugins = tmp_path / "plugins"
    (plugins / "backends/absent").mkdir(parents=True)
    (plugins / "backends/absent/backend.py").write_text("raise ImportError('no such library')\n")
    monkeypatch.setenv(loader.VARIABLE, str(plugins))
    return tmp_path


@pytest.fixture
def estimate(call: Call, root: Path) -> Call:
    """The command, whose lines fit the terminal."""

    def run(*arguments: str) -> Done:
        done = call("estimate", *arguments)
        assert not too_wide(done.out)
        return done

    return run


def row(done: Done, first: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    (line,) = (line for line in done.out.splitlines() if line.startswith(f" {first} "))
    return line.split()


def test_this_machine_costs_nothing_and_compiles_nothing(estimate: Call) -> None:
    done = estimate()
    assert done.code == 0 and done.err == ""
    assert done.words.startswith("local: 1 node, 4 ranks")
    assert row(done, "train")[1] == "8" and row(done, "bench")[1] == "11"
    assert "USD" not in done.out and "no price of this host" in done.words
    assert "compiling: nothing" in done.words
    assert row(done, "nano-dp")[:3] == ["nano-dp", "1", "918,656"]


def test_two_nodes_take_twice_the_node_minutes(estimate: Call) -> None:
    alone, two = (
        row(estimate("--deployment", name, "--problems", "tp_mlp"), "bench")
        for name in ("local", "slurm-cpu")
    )
    assert 0 < float(two[-1]) == pytest.approx(2 * float(alone[-1]), abs=0.1)  # each is rounded


def test_a_cluster_is_estimated_by_its_profile_though_its_backend_cannot_be_imported(estimate: Call) -> None:
    done = estimate("--profile", "trn1")
    assert done.code == 0, done.err
    assert done.words.startswith("trn1: 7 nodes of trn1.32xlarge, 224 ranks")
    told = ("USD: 21.50 an hour", "us-west-2 on 2026-06-25", "published calibration")
    assert all(part in done.words for part in told)
    least, most = (float(end.replace(",", "")) for end in row(done, "together")[-1].split(".."))
    node_minutes = [float(end.replace(",", "")) for end in row(done, "together")[-2].split("..")]
    assert [least, most] == pytest.approx([21.5 * m / 60 for m in node_minutes], abs=0.6)
    assert 0 < least < most


def test_models_without_a_training_step_are_sized(estimate: Call) -> None:
    done = estimate("--profile", "trn1", "--models", "olmoe-10b,llama-7b")
    assert done.code == 0, done.err
    assert row(done, "train")[1] == "0"
    assert "llama-7b is sized" in done.words and "no training step" in done.words
    assert "olmoe-10b is sized, not trained: its dtype is bfloat16" in done.words
    assert row(done, "olmoe-10b")[2] == "11,544,332,288" and row(done, "llama-7b")[2] == "8,049,135,616"
    assert "OVER THE BUDGET" not in done.words


def test_a_case_over_the_memory_budget_is_marked(estimate: Call, root: Path) -> None:
    file = root / "config/deployments/trn1.yaml"
    file.write_text(file.read_text().replace("8GiB", "512MiB"))
    done = estimate("--profile", "trn1", "--models", "llama-7b")
    assert "OVER THE" in done.words


def test_the_cases_of_a_run_without_models_are_held_against_the_budget(estimate: Call, root: Path) -> None:
    padded = "alltoallv/n224-r32-zipf-8.8MiB-bf16"  # as many rows as the busiest pair has, for all pairs
    words = estimate("--profile", "trn1").words
    assert "Of 13 Cases" in words and f"{padded} holds most" in words and " 1,120 MiB" in words
    file = root / "config/deployments/trn1.yaml"
    file.write_text(file.read_text().replace("8GiB", "1GiB"))
    over = f"OVER THE BUDGET: {padded}. A run takes another way that developers call it, and stops where none fits"
    assert over in estimate("--profile", "trn1").words


def test_a_problem_without_a_case_is_said_and_not_counted(estimate: Call, root: Path) -> None:
    file = root / "config/config.yaml"
    written = yaml.safe_load(file.read_text())
    del written["presets"]["cluster"]["cases"]["layer_block_ar"]
    file.write_text(yaml.safe_dump(written))
    done = estimate("--deployment", "trn1", "--models", "olmoe-10b", "--problems", "layer_block_ar")
    assert "layer_block_ar has no Case" in done.words


def test_a_model_whose_problems_are_not_configured_is_sized(estimate: Call) -> None:
    done = estimate("--problems", "tp_mlp", "--models", "nano,nano-dp")
    assert row(done, "train")[1] == "1"
    assert "nano-dp is sized" in done.words and "lacks grad_ar" in done.words


def test_an_old_price_is_told(estimate: Call, root: Path) -> None:
    file = root / "config/prices.yaml"
    day = yaml.safe_load(file.read_text())["prices"][0]["date"]
    old = datetime.date.today() - datetime.timedelta(days=200)
    file.write_text(file.read_text().replace(str(day), str(old)))
    assert "200 days old" in estimate("--profile", "trn1").words


def test_a_wide_terminal_has_every_column(
    estimate: Call, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = estimate("--profile", "trn1", "--models", "llama-7b").words
    monkeypatch.setenv("COLUMNS", "160")
    console.cache_clear()
    wide = call("estimate", "--profile", "trn1", "--models", "llama-7b").words
    for header in ("Programs", "measuring", "start-up", "gradients", "activation", "TFLOP"):
        assert f" {header} " in wide.partition("measuring: what")[0] + wide.partition("parameters")[2], header
    assert " TFLOP " not in narrow.partition("M: microbatches")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "trn9"), "did you mean 'trn1'"),
        (("--deployment", "nowhere"), "no deployment 'nowhere'"),
        (("--deployment", "local", "--models", "llama-7b"), "tensor x stages (got 4"),
        (("--models", "nanno"), "no model 'nanno'"),
        (("somewhere", "--profile", "trn1"), "TREE is a run"),
        (("somewhere",), "no such folder"),
    ],
)
def test_wrong_input_is_one_message(estimate: Call, arguments: tuple[str, ...], message: str) -> None:
    assert message in estimate(*arguments).message(2)


def test_a_finished_run_stands_beside_what_was_expected_of_it(estimate: Call, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "monday", problems=("tp_mlp",), data=False)
    done = estimate(str(tree))
    assert done.code == 0, done.err
    assert "monday: what it took" in done.words
    assert row(done, "selftest")[1] == "0.3"  # 20 s
    assert "compiling is not in it" in done.words and row(done, "all")[2] != "-"
    assert "No money is told" in done.words


def test_a_run_that_was_there_tells_what_light_rules_take(estimate: Call, root: Path) -> None:
    before = estimate("--problems", "tp_mlp")
    write_tree(root / "results" / "local", problems=("tp_mlp",), data=False)
    after = estimate("--problems", "tp_mlp")
    assert "seconds for each job" in before.words
    assert "took in the last run" in after.words
