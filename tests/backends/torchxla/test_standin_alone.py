"""The stand-in in one process: where it may be put, and what a module says to ranks that never met. No ranks."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from overlayccl_core.backends.torchxla.standin.install import install, top
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import Stamp
from tests.backends.torchxla.modules import CALLS, all_known_ways, emit, small_case
from tests.emit.deployed_modules import entry

CASE = small_case("tp_mlp", 4)


@pytest.fixture
def standing_in() -> Iterator[None]:
    if "torch_xla" in sys.modules:
        pytest.skip("the real torch_xla is here")
    install()
    yield
    for name in [one for one in sys.modules if one.split(".")[0] == "torch_xla"]:
        del sys.modules[name]


def printed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(source, "printed", "exec"), names)
    return names


def test_ranks_that_torchrun_started_and_nobody_joined_are_refused_with_the_mend(
    standing_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world of one, as the real one has it on CPU: its all_reduce would return what it is given."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    module = printed(emit(all_known_ways(CASE)["forward developer"]))
    with pytest.raises(RuntimeError, match=r"4 ranks.* has 1 .*'xla'"):
        module["connect"]()
    stamp = Stamp(library="standin", versions={})
    file = printed(deployed_module("tp_mlp", [entry(CASE, "developer")], stamp, calls=CALLS))
    with pytest.raises(RuntimeError, match=r"started.* 1 .*DEVICE is CPU"):
        file["connect"](CASE.id)


def test_it_is_found_under_every_name_and_may_be_put_there_twice(standing_in: None) -> None:
    install()
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch_xla import runtime as xr

    assert torch_xla is top and xr.world_size() == 1 and xm.rendezvous("x", b"y") == [b"y"]
    assert torch_xla.__version__ == "stand-in" and xr.device_type() == "STANDIN"


def test_the_real_one_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_xla", ModuleType("torch_xla"))
    with pytest.raises(RuntimeError, match="the stand-in is for"):
        install()
