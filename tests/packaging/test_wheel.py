"""The wheel holds all that a project needs; installed alone, it lays one down that runs.

`make test-wheel` also installs it into a new environment and runs a project there: some minutes.
"""

import json
import os
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core import project
from overlayccl_core.configuration.searches import load
from overlayccl_core.project import PARTS, SHARE, lay, other_rules
from overlayccl_core.search.proposers.command import check

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("overlayccl_core", "workflow_scripts", "run_display")
ASKED = "OVERLAYCCL_WHEEL"
DEPLOYMENT = ROOT / "config/deployments/local-2.yaml"
STRATEGY = '''

def mine(io, p):
    """One all_reduce for each sum, all of a layer in a graph of their own."""
    for layer in p.layer_order:
        for m in range(p.microbatches):
            io.write("total", m, layer, all_reduce(io.read("partial", m, layer), "sum"))
        boundary()


'''


BY_NAME = """
import torch.distributed as dist
dist.init_process_group("overlayccl", store=dist.HashStore(), rank=0, world_size=1)
print(type(dist.group.WORLD).__mro__[1].__module__.rpartition(".")[0], dist.get_backend())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of what git knows, in a folder of its own: nothing of an older build gets in."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist", folder]
    subprocess.run([sys.executable, "-m", "pip", "-q", *build], check=True)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_file_that_a_project_or_a_job_needs(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    data = {name.partition(f"/data/{SHARE}/")[2] for name in held if ".data/data/" in name}
    files = [p.relative_to(ROOT) for part in (*PARTS, *PACKAGES) for p in _files(ROOT / part)]
    missing = [p for p in files if p.as_posix() not in (held if p.parts[0] in PACKAGES else data)]
    assert not missing
    assert not [name for name in held if name.startswith("tests/") or name.startswith("benchmarks/")]


def test_what_few_need_is_an_extra(wheel: Path) -> None:
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/METADATA"))
    needs = [
        line
        for line in zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
        if "Requires-Dist" in line
    ]
    for library in ("optuna", "rocrate", "tokenizers"):
        (line,) = (line for line in needs if line.split()[1].startswith(library))
        assert "extra ==" in line


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return [p for p in found if "__pycache__" not in p.parts]


@pytest.mark.timeout(1800)
def test_a_project_runs_where_only_the_wheel_is(wheel: Path, tmp_path: Path) -> None:
    if ASKED not in os.environ:
        pytest.skip(f"takes minutes: {ASKED}=1, as in `make test-wheel`")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python, bin_ = environment / "bin" / "python", environment / "bin"
    install = runpy.run_path(str(ROOT / "envs" / "install.py"))["install"]

    def pip(arguments: Sequence[str]) -> tuple[int, str]:
        """pip of the new environment; in place of the clone it installs the wheel."""
        words = [str(wheel) if word == str(ROOT) else word for word in arguments if word != "--editable"]
        done = subprocess.run([python, "-m", "pip", "-q", *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    install("local", pip, print, None)
    project = tmp_path / "somewhere" / "project"

    def typed(*words: str) -> str:
        own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "OVERLAYCCL", "VIRTUAL"))}
        path = {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(words, cwd=project, env=own | path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    subprocess.run([bin_ / "overlayccl", "init", project, "--own", "tp_mlp"], check=True)
    (project / "config/deployments/mine.yaml").write_text(DEPLOYMENT.read_text())
    assert typed(str(python), "-c", BY_NAME) == "overlayccl_core.process_group gloo\n"
    mine = project / "plugins/strategies/tp_mlp.py"
    text = mine.read_text()
    head, listed = text.split("LIBRARY = Library(", 1)
    mine.write_text(f'{head}{STRATEGY}LIBRARY = Library(others=("mine",),{listed}')
    asked = ("--config", "deployment=mine", "preset=smoke", "problems=tp_mlp", "models=nano-small")
    typed("snakemake", "--profile", "local", "all", *asked)
    results = project / "results/mine-smoke"
    ways = pl.read_parquet(results / "problems/tp_mlp/known_ways.parquet").filter(strategy="mine")
    assert ways.height and set(ways["equivalence"]) == {"pass"}
    bench = pl.read_parquet(results / "problems/tp_mlp/bench.parquet")
    assert {"timed"} == set(bench["status"])
    record = json.loads((results / "deploy/tp_mlp.json").read_text())
    assert (results / "deploy/tp_mlp.py").is_file() == (
        record["module"] is not None
    )  # else torch's own is faster
    assert (results / "report.html").is_file()
    typed("snakemake", "--profile", "local", "archive", *asked)
    assert "nothing is wrong" in typed("overlayccl", "verify", "results/mine-smoke.tar.zst")


def test_a_project_is_laid_down_with_links_that_profiles_are_found_by(tmp_path: Path) -> None:
    lay(tmp_path / "new", ("tp_mlp",))
    for profile in ("local", "trn1", "slurm-cpu", "slurm-gpu"):
        assert (tmp_path / "new" / profile / "profile.yaml").is_file()
    assert not (tmp_path / "new" / "default").exists()
    assert (tmp_path / "new/plugins/strategies/tp_mlp.py").read_bytes() == (
        ROOT / "overlayccl_core/strategies/tp_mlp.py"
    ).read_bytes()


def test_what_is_laid_down_can_be_written_also_where_the_installation_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Nix store, a tree of modules that many share: files of mode 0444 in folders of mode 0555."""
    installed, strategy = tmp_path / "installed", tmp_path / "tp_mlp.py"
    lay(installed, ())
    strategy.write_bytes((ROOT / "overlayccl_core/strategies/tp_mlp.py").read_bytes())
    for path in (strategy, installed, *installed.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    monkeypatch.setattr(project, "home", lambda: installed)
    monkeypatch.setattr(project.loader, "path", lambda *_: strategy)
    lay(tmp_path / "new", ("tp_mlp",))
    assert [path for path in (tmp_path / "new").rglob("*") if not path.stat().st_mode & 0o200] == []
    for path in (installed, *installed.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def test_what_the_configuration_names_is_laid_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search by a program could be run as it is, and those of its sketches are found."""
    lay(tmp_path / "new", ())
    monkeypatch.chdir(tmp_path / "new")
    check(load("command"))
    asked = {"purpose": "ideas", "system": "# The Problem: tp_mlp", "messages": [{"text": ""}]}
    words = [sys.executable, *load("command").command.split()[1:]]
    done = subprocess.run(words, input=json.dumps(asked), capture_output=True, text=True, check=True)
    assert "recursive_doubling" in done.stdout


def test_a_folder_that_is_new_to_git_gets_a_project_whose_results_git_leaves_out(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    lay(tmp_path, ())
    for file in (
        "results/local/selftest.parquet",
        ".snakemake/metadata/a",
        "plugins/strategies/__pycache__/a.pyc",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    told = ["git", "-C", tmp_path, "ls-files", "-o", "--exclude-standard"]
    files = subprocess.run(told, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"Snakefile", ".gitignore", "local", "config/config.yaml", "examples/answer.py"} <= set(files)
    assert not [file for file in files if file.startswith(("results", ".snakemake")) or "__pycache__" in file]


def test_of_a_project_the_rules_that_are_not_the_packages_are_named(tmp_path: Path) -> None:
    assert other_rules(tmp_path) == []  # no project
    assert other_rules(ROOT) == []
    lay(tmp_path / "new", ())
    assert other_rules(tmp_path / "new") == []
    (tmp_path / "new/config/config.yaml").write_text("mine")
    (tmp_path / "new/rules/mine.smk").touch()
    assert other_rules(tmp_path / "new") == []
    (tmp_path / "new/Snakefile").write_text("of another release")
    (tmp_path / "new/rules/search.smk").unlink()
    assert other_rules(tmp_path / "new") == [Path("Snakefile"), Path("rules/search.smk")]


@pytest.mark.parametrize("there", ["file", "folder"])
def test_nothing_is_laid_over_what_is_there(tmp_path: Path, there: str) -> None:
    target = tmp_path / "new"
    if there == "file":
        target.write_text("mine")
    else:
        (target / "mine").mkdir(parents=True)
    with pytest.raises(ValueError, match="there is something already"):
        lay(target, ())
    assert [p.name for p in tmp_path.rglob("*")] == (["new"] if there == "file" else ["new", "mine"])


def test_a_misspelt_problem_lays_nothing_down(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'tp_mlp'"):
        lay(tmp_path / "new", ("tp_mpl",))
    assert not (tmp_path / "new").exists()
