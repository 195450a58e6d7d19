"""The calls printed into modules: by the names that this torch has (since 2.13 the older ones warn, 2.9 has no
others), and in the right order."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from overlayccl_core.backends.torchdist.backend import CALLS

NAMES = {"_all_gather": "all_gather_single", "_reduce_scatter": "reduce_scatter_single"}
OLDER = {"_all_gather": "all_gather_into_tensor", "_reduce_scatter": "reduce_scatter_tensor"}
SOURCE = Path(__file__).parents[3] / f"{CALLS.replace('.', '/')}.py"


def printed() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(SOURCE.read_text(), "printed", "exec"), names)
    return names


@pytest.mark.parametrize("older", [False, True])
def test_the_newer_name_is_taken_where_torch_has_it(older: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES.values():
        monkeypatch.setattr(dist, name, lambda: None, raising=False)
        if older:
            monkeypatch.delattr(dist, name)
    wanted = OLDER if older else NAMES
    assert {name: printed()[name] for name in wanted} == {
        name: getattr(dist, call) for name, call in wanted.items()
    }


def test_a_receive_is_posted_before_the_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gloo tells a sender that one is ready to receive behind what one sends: late ranks would take turns."""
    posted = []
    for name in ("isend", "irecv"):
        monkeypatch.setattr(dist, name, lambda *_, name=name, **_more: posted.append(name))
    printed()["collective_permute"](torch.zeros(4), (1, 2), 0)
    assert posted == ["irecv", "isend"]
