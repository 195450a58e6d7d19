"""docs/add-a-problem.md, followed literally: its files in a folder of plug-ins, its commands, its script."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from overlayccl_core import loader
from overlayccl_core.cli.main import main
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from tests.cli.repository import fitted
from tests.emit.deployed_modules import entry, write

REPOSITORY = Path(__file__).parents[2]
PROBLEM = "sum_scatter"
BLOCKS = re.findall(
    r"^```(\w+) ?(\S*)\n(.*?)^```$",
    (REPOSITORY / "docs/add-a-problem.md").read_text(),
    re.DOTALL | re.MULTILINE,
)
COMMANDS = [line.split()[1:] for kind, _, text in BLOCKS if kind == "sh" for line in text.splitlines()]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted repository, with the files and the Case of the guide."""
    root = tmp_path_factory.mktemp("guide")
    shutil.copytree(REPOSITORY / "config", root / "config")
    fitted(root)
    for kind, name, text in BLOCKS:
        if not name:
            continue
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind == "yaml":
            config = yaml.safe_load(file.read_text())
            config["cases"] |= yaml.safe_load(text)["cases"]
            text = yaml.safe_dump(config)
        file.write_text(text)
    return root


@pytest.fixture
def root(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(loader.VARIABLE, str(fresh / "plugins"))
    monkeypatch.chdir(fresh)
    return fresh


def test_the_guide_has_files_a_case_and_commands() -> None:
    files = {name for _, name, _ in BLOCKS if name}
    plugins = {f"plugins/{folder}/{PROBLEM}.py" for folder in ("problems", "strategies")}
    assert files == {*plugins, "config/config.yaml", "use_it.py"}
    assert {"problems", "prove", "trace", "score", "try"} == {words[0] for words in COMMANDS}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_its_commands_answer_yes(root: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main([*words, *(["--no-measure"] if words[0] == "try" else [])]) == 0
    done = capsys.readouterr()
    assert f"{PROBLEM}/n4-t2-32KiB-f32" in done.out and not done.err.startswith("overlayccl:")
    if words[0] != "problems" and words[0] != "trace":
        assert "proven" in done.out
    if words[0] == "trace":
        one = "1: 1 all_gather" if "backward" in words else "1: 1 reduce_scatter"
        assert one in done.out


def test_an_entry_that_does_not_fit_says_the_mend(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = '{"tensors": 1, "shape": [66, 8]}'
    assert main(["prove", "developer", "--problem", PROBLEM, "--case-json", odd]) == 2
    assert re.search(r"sequence .*66 over 4.* 68", capsys.readouterr().err)


@pytest.mark.parametrize(
    "words", [("problems", PROBLEM), ("prove", "developer", "--problem", PROBLEM)], ids=lambda words: words[0]
)
def test_what_is_wrong_in_a_library_is_told_with_file_and_line(
    root: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    library = root / "plugins/strategies" / f"{PROBLEM}.py"
    text = library.read_text()
    try:
        library.write_text(text.replace("p.piece[0], p.piece[1])", "*p.piece)"))
        assert main(list(words)) == 1
    finally:
        library.write_text(text)
    said = capsys.readouterr().err
    assert f"{library}, line " in said and "* before a value" in said


@pytest.mark.ranks
def test_its_script_finds_pieces_and_gradients_right(root: Path) -> None:
    [case] = cases_of(read(), load(Path("config/deployments/local.yaml")), PROBLEM)
    write(root, PROBLEM, [entry(case, "bundled", backward="exchange_and_sum")])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "4", "use_it.py"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pieces and gradients are right") == 4
