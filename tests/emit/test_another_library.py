"""Another library of torch tensors gives its own calls; layout, groups and gradients are printed as ever."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import Stamp
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.emit.deployed_modules import entry, library_way
from tests.small_problems import exchange, strategy

MIRROR = "overlayccl_core.backends.mirror.calls"
STAMP = Stamp(library="mirror", versions={"mirror": "1"})


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that holds backends/mirror/calls.py."""
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(Path(__file__).parent / "plugins"))


def tp(site: str) -> Case:
    fields = {"microbatches": 2, "layers": 2, "shape": [1, 3, 6], "site": site}
    return catalog.case("tp_mlp", fields, ranks=2, ranks_per_node=2)


def namespace(source: str) -> dict[str, Any]:
    """What a module holds, loaded as a text: it is in nobody's sys.modules."""
    assert "torch.distributed" not in source and "dist." not in source
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(source, "printed", "exec"), names)
    assert "printed" not in sys.modules
    return names


def test_an_emitted_module_runs_with_the_calls_that_it_was_given() -> None:
    body = (
        'io.write("y", all_reduce(scale(io.read("x"), 3))); io.write("z", all_reduce(io.read("x2"), "max"))'
    )
    problem = exchange(2, {"x": (4,), "x2": (4,)}, {"y": (4,), "z": (4,)}, linear=False)
    program: Program = trace_source(strategy(body.replace("; ", "\n"), "all_reduce, scale"), "tried", problem)
    names = namespace(emit(program, calls=MIRROR))
    names["connect"]()
    written = {}
    steps = names["forward"]()
    event = next(steps)
    try:
        while True:
            if isinstance(event, names["Read"]):
                event = steps.send(torch.ones(4))
            else:
                written[event.port] = event.value.tolist()
                event = next(steps)
    except StopIteration:
        pass
    assert written == {("y",): [6.0] * 4, ("z",): [1.0] * 4}


def test_a_deployed_module_has_groups_gradients_selftest_and_versions_of_it() -> None:
    cases = [entry(tp("exit"), "merged_over_microbatches"), entry(tp("entry"), "merged_over_microbatches")]
    names = namespace(deployed_module("tp_mlp", cases, STAMP, calls=MIRROR))
    leave, enter = (names["connect"](case, strict=True) for case in names["cases"]())
    xs = [torch.full((1, 3, 6), i + 1.0, requires_grad=True) for i in range(2)]
    ys = leave.group(0)(enter.group(0)(xs))
    assert [y.mean().item() for y in ys] == [2.0, 4.0]
    torch.stack(ys).sum().backward()
    assert [x.grad.mean().item() for x in xs if x.grad is not None] == [2.0, 2.0]
    assert leave.stamp()["calls"] == enter.stamp()["calls"] == {"all_reduce": 1}
    assert leave.stamp()["differs"] == [] and leave.stamp()["proven"] == {"library": "mirror", "mirror": "1"}
    assert [line["error"] for line in names["selftest"]()] == [0.0] * 3


def test_what_it_does_not_give_is_named() -> None:

    with pytest.raises(ValueError, match=r"reduce_scatter .*mirror"):
        emit(library_way(tp("exit"), "reduce_scatter_all_gather"), calls=MIRROR)
