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

from tests.workflow.repository import ROOT

NONE = "ERROR: No matching distribution found for torch"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("install", ROOT / "envs/install.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pip:
    """Notes what it is asked to install. refused: what it says of the CPU build, and fails."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> tuple[int, str]:
        self.asked.append(list(arguments))
        failed = self.refused and any(one.endswith("+cpu") for one in arguments)
        return (1, self.refused) if failed else (0, "")


def pin(script: ModuleType) -> str:
    return next(str(line) for line in script.lines_of("local") if line.startswith("torch=="))


def test_the_cpu_build_is_taken_where_it_can_be_had(script: ModuleType) -> None:
    pip, said = Pip(), list[str]()
    script.install("dev", pip, said.append, None)
    first, rest, package = pip.asked
    assert first[-1] == pin(script) and pin(script).endswith("+cpu") and "--extra-index-url" in first
    assert pin(script) in rest and "--extra-index-url" not in rest
    assert any(one.startswith("snakemake==") for one in rest) and any(
        one.startswith("ruff==") for one in rest
    )
    assert package[-2:] == ["--editable", str(ROOT)]
    assert said == []


def test_without_the_cpu_build_the_registrys_torch_is_taken_after_its_size_is_said(
    script: ModuleType,
) -> None:
    pip, said = Pip(refused=NONE), list[str]()
    script.install("local", pip, said.append, None)
    assert len(said) == 1 and "GB to download" in said[0]
    plain = pin(script).removesuffix("+cpu")
    assert plain in pip.asked[1] and "--no-deps" not in pip.asked[1]


@pytest.mark.parametrize("here", ["+cpu", ""])
def test_a_torch_that_is_there_is_kept(script: ModuleType, here: str) -> None:
    pip = Pip(refused=NONE)
    wanted = pin(script).removesuffix("+cpu") + here
    pip.refused = ""
    script.install("local", pip, pytest.fail, wanted.removeprefix("torch=="))
    assert len(pip.asked) == 2 and wanted in pip.asked[0]


def test_any_other_failure_stops_with_pips_own_words(script: ModuleType) -> None:
    pip = Pip(refused="ERROR: No space left on device")
    with pytest.raises(SystemExit, match="No space left on device"):
        script.install("local", pip, pytest.fail, None)
    assert len(pip.asked) == 1


def test_what_pip_says_of_a_wheel_that_is_nowhere_is_understood(script: ModuleType, tmp_path: Path) -> None:
    """Asked of the real pip, with a folder as its only index: it has torch of the version, no CPU build of it."""
    version = pin(script).removeprefix("torch==").removesuffix("+cpu")
    wheel(tmp_path, "torch", version)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    for requirement, found in ((pin(script), False), (f"torch=={version}", True)):
        asked = ["install", "--dry-run", "--ignore-installed", "--no-deps", requirement]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *asked], env=environment, capture_output=True, text=True
        )
        assert (done.returncode == 0) is found, done.stderr
        assert (script.NOT_TO_BE_HAD in done.stderr) is not found


def wheel(folder: Path, name: str, version: str) -> None:
    """An empty package."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_conda_environment_pins_what_the_requirements_pin(script: ModuleType) -> None:
    conda = yaml.safe_load((ROOT / "envs/local.yaml").read_text())["dependencies"][-1]["pip"]
    assert conda == script.lines_of("local")
