"""For all tests: in which order they start; how long an example takes is not tested, since machines are shared."""

import gc
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from overlayccl_core import loader
from overlayccl_core.backends.measured import TimingSettings
from overlayccl_core.tables.remake import PROFILE
from tests.sandbox.forked import fork_processes

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs of the pipeline come first: they take minutes, for which a second worker would wait at the end."""
    items.sort(key=lambda item: (-_timeout(item), item.path.parent.name != "workflow"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: the garbage collector need not look at them each time."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ranks look in no folder that they run in: workers of tests are found by the path. A pipeline has its own."""
    root = Path(__file__).parents[1]
    if item.get_closest_marker("ranks") and item.path.parent.name != "workflow":
        os.environ["PYTHONPATH"] = str(root)
    elif os.environ.get("PYTHONPATH") == str(root):
        del os.environ["PYTHONPATH"]


@pytest.fixture(autouse=True)
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that was told of a profile tells it to the rest of its process, which ends with it; not here."""
    monkeypatch.setenv(PROFILE, "local")


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-ins of tests are there."""
    monkeypatch.setenv(loader.VARIABLE, str(Path(__file__).parent / "plugins"))


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confined processes are forked, which is quicker than to start each."""
    fork_processes(monkeypatch)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


@pytest.fixture(scope="module")
def unrepeated() -> Iterator[None]:
    """Launches are not made again because others use the machine: what such a launch means is not looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("overlayccl_core.training.launches.FOREIGN_CPU_LIMIT", 1.0)
        patch.setattr(TimingSettings, "of", partial(TimingSettings.of, foreign_cpu_limit=1.0))
        yield


@pytest.fixture
def judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails beside others is not tried alone first: tests/backends/test_failed.py holds that it is."""
    monkeypatch.setattr("overlayccl_core.timing.failed_jobs.MOST", 1)


def _timeout(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0
