"""Set-up: what is installed, what is done where the CPU build of torch is not to be had, and that pins agree."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.workflow.repository import ROOT, copy_to


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("install", ROOT / "envs/install.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pip:
    """Notes what it is asked to do. fails: what it cannot do, by a word of what it is asked."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> tuple[int, str]:
        self.asked.append(list(arguments))
        failed = next((word for word in self.fails if any(one.endswith(word) for one in arguments)), None)
        return (1, f"ERROR: no {failed}\n") if failed else (0, "")

    @property
    def installed(self) -> list[list[str]]:
        return [asked for asked in self.asked if "--dry-run" not in asked]


def pin(script: ModuleType) -> str:
    return next(str(line) for line in script.lines_of("local") if line.startswith("torch=="))


def test_the_cpu_build_is_taken_where_it_can_be_had(script: ModuleType) -> None:
    pip, said = Pip(), list[str]()
    script.install("dev", pip, said.append, None)
    first, rest, package = pip.installed
    assert first[-1] == pin(script) and pin(script).endswith("+cpu") and "--extra-index-url" in first
    assert pin(script) in rest and "--extra-index-url" not in rest
    assert any(one.startswith("snakemake==") for one in rest) and any(
        one.startswith("ruff==") for one in rest
    )
    assert package[-2:] == ["--editable", str(ROOT)]
    assert said == []


def test_without_the_cpu_build_the_registrys_torch_is_taken_and_what_comes_with_it_is_said_first(
    script: ModuleType,
) -> None:
    pip, said = Pip("+cpu"), list[str]()
    script.install("local", pip, said.append, None)
    assert len(said) == 1 and "CUDA's libraries" in said[0]
    rest, _ = pip.installed
    assert pin(script).removesuffix("+cpu") in rest and "--no-deps" not in rest


def test_where_there_is_no_torch_at_all_nothing_is_announced_and_pip_says_why(script: ModuleType) -> None:
    plain = pin(script).removesuffix("+cpu")
    pip = Pip("+cpu", plain)
    with pytest.raises(SystemExit, match=rf"ERROR: no \+cpu\nERROR: no {plain}\n"):
        script.install("local", pip, pytest.fail, None)
    assert pip.installed == []


@pytest.mark.parametrize("build", ["+cpu", ""])
def test_a_torch_that_is_there_is_kept(script: ModuleType, build: str) -> None:
    pip = Pip()
    here = pin(script).removesuffix("+cpu") + build
    script.install("local", pip, pytest.fail, here.removeprefix("torch=="))
    assert len(pip.asked) == 2 and here in pip.asked[0]


def test_a_failure_to_install_what_is_there_stops_with_pips_own_words(script: ModuleType) -> None:
    pip = Pip(str(ROOT))
    with pytest.raises(SystemExit, match="ERROR: no "):
        script.install("local", pip, pytest.fail, None)


@pytest.mark.parametrize("there", [True, False])
def test_pip_fails_where_a_wheel_is_nowhere(
    script: ModuleType, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked of the real pip, with a folder as its only index: it has torch of the version, no CPU build of it."""
    plain = pin(script).removesuffix("+cpu")
    wheel(tmp_path, "torch", plain.removeprefix("torch=="))
    for name in [one for one in os.environ if one.startswith("PIP_")]:
        monkeypatch.delenv(name)
    only = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    for name, value in only.items():
        monkeypatch.setenv(name, value)
    asked = ["install", "--dry-run", "--ignore-installed", "--no-deps", plain if there else pin(script)]
    code, said = script.run_pip(asked)
    assert (code == 0) is there, said


def test_the_pipeline_runs_where_only_its_libraries_are_installed(tmp_path: Path) -> None:
    """So in an environment that was set up for an older version, whatever of it that version installed."""
    without_install = (
        "import sys; from pathlib import Path;"
        "sys.path[:] = [one for one in sys.path if not Path(one, 'overlayccl_core').is_dir()];"
        "from snakemake.cli import main; main()"
    )
    root = copy_to(tmp_path)
    table = "results/local/selftest.parquet"
    command = [sys.executable, "-c", without_install, "--profile", "local", "--dry-run", table]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ranks of local" in done.stdout


def wheel(folder: Path, name: str, version: str) -> None:
    """An empty package."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_the_environment_of_torch_xla_pins_the_same_but_for_torch(script: ModuleType) -> None:
    pins, usual = (
        dict(line.partition("==")[::2] for line in script.lines_of(name) if "==" in line)
        for name in ("xla", "dev")
    )
    assert pins.pop("torch") == f"{pins.pop('torch_xla')}+cpu"
    assert pins == {name: version for name, version in usual.items() if name in pins}


def test_conda_environment_pins_what_the_requirements_pin(script: ModuleType) -> None:
    conda = yaml.safe_load((ROOT / "envs/local.yaml").read_text())["dependencies"][-1]["pip"]
    assert conda == script.lines_of("local")
