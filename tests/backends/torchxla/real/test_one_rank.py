"""The real torch_xla on one CPU rank: the stand-in does the same, with the same signatures; and what to mind."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from overlayccl_core.backends.torchxla.backend import VERSIONS
from overlayccl_core.backends.torchxla.environment import NUMERIC_TOKEN
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import Stamp
from overlayccl_core.program.kinds import Kind
from tests.backends.torchxla.modules import CALLS, all_known_ways, emit, small_case
from tests.emit.deployed_modules import entry

FUNCTIONS = {
    "torch_xla": ("device", "sync"),
    "torch_xla.runtime": ("world_size", "global_ordinal", "device_type"),
    "torch_xla.core.xla_model": (
        *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"),
        *("rendezvous", "wait_device_ops"),
    ),
}
ALONE = [[0]]
Lines = dict[str, Callable[[Any, Any], Any]]


@pytest.fixture
def both() -> list[tuple[Any, Any, Any]]:
    """(package, xla_model, runtime), real and standing in; a graph begins."""
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    from overlayccl_core.backends.torchxla.standin import runtime, xla_model
    from overlayccl_core.backends.torchxla.standin.install import top

    torch_xla.sync()
    top.sync()
    return [(torch_xla, xm, xr), (top, xla_model, runtime)]


def test_the_stand_in_has_the_real_signatures(both: list[tuple[Any, Any, Any]]) -> None:
    for of, names in zip((0, 2, 1), FUNCTIONS.values(), strict=True):
        for name in names:
            real, standin = (
                [
                    (p.name, p.kind, _plain(p.default))
                    for p in inspect.signature(getattr(one[of], name)).parameters.values()
                ]
                for one in both
            )
            assert real == standin, name
    import torch_xla.debug.metrics as real_metrics

    from overlayccl_core.backends.torchxla.standin.install import metrics

    ways = [inspect.signature(one.metric_data) for one in (real_metrics, metrics)]
    assert list(ways[0].parameters) == list(ways[1].parameters)
    assert real_metrics.metric_data("never happened") is metrics.metric_data("never happened") is None
    constants = [{k: v for k, v in vars(one[1]).items() if k.startswith("REDUCE_")} for one in both]
    assert constants[0] == constants[1]


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def x(torch_xla: Any, *values: float) -> Any:
    import torch

    return torch.tensor(values or (0.0, 1.0, 2.0, 3.0)).to(torch_xla.device())


PRIMITIVES: Lines = {
    "all_reduce": lambda t, xm: xm.all_reduce("sum", x(t), groups=ALONE),
    "all_reduce max, scaled": lambda t, xm: xm.all_reduce(xm.REDUCE_MAX, x(t), 0.5, groups=ALONE),
    "all_reduce of a list": lambda t, xm: xm.all_reduce("sum", [x(t), x(t, 5)], 2.0, groups=ALONE),
    "all_gather": lambda t, xm: xm.all_gather(x(t), groups=ALONE, pin_layout=False),
    "all_gather of an axis": lambda t, xm: xm.all_gather(x(t).view(2, 2), 1, pin_layout=False),
    "reduce_scatter": lambda t, xm: xm.reduce_scatter("sum", x(t), 0.5, 0, 1, groups=ALONE),
    "all_to_all": lambda t, xm: xm.all_to_all(x(t), 0, 0, 1, groups=ALONE),
    "collective_permute": lambda t, xm: xm.collective_permute(x(t), [[0, 0]]),
    "collective_permute from nobody": lambda t, xm: xm.collective_permute(x(t), []),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_gives_the_same(name: str, both: list[tuple[Any, Any, Any]]) -> None:
    real, standin = (_lists(PRIMITIVES[name](package, xm)) for package, xm, _ in both)
    assert real == standin


def _lists(result: Any) -> Any:
    return [y.tolist() for y in result] if isinstance(result, list) else result.tolist()


def test_a_tensor_is_reduced_into_a_new_one_and_a_list_in_place(both: list[tuple[Any, Any, Any]]) -> None:
    for package, xm, _ in both:
        kept, changed = x(package), x(package)
        assert xm.all_reduce("sum", kept, 2.0, groups=ALONE).tolist() == [0, 2, 4, 6]
        xm.all_reduce("sum", [changed], 2.0, groups=ALONE)
        assert kept.tolist() == [0, 1, 2, 3] and changed.tolist() == [0, 2, 4, 6]


def test_what_is_no_number_reaches_later_collectives_of_its_graph_but_no_sum(
    both: list[tuple[Any, Any, Any]],
) -> None:
    seen = []
    for package, xm, _ in both:
        xm.all_gather(x(package, float("nan"), 1.0), groups=ALONE, pin_layout=False)
        made = [PRIMITIVES[name](package, xm) for name in PRIMITIVES if "list" not in name]
        package.sync()
        made.append(PRIMITIVES["all_gather"](package, xm))
        seen.append([[v == v for y in one.view(-1).tolist() for v in (y,)] for one in made])
    assert seen[0] == seen[1]
    assert all(seen[0][0]) and not any(seen[0][2]) and all(seen[0][-1])


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_to_all"])
def test_groups_of_unequal_size_are_refused(name: str) -> None:
    """In a process of its own: the real one cannot go on with a graph that it refused."""
    call = {
        "all_gather": "xm.all_gather(x, groups=G, pin_layout=False)",
        "reduce_scatter": "xm.reduce_scatter('sum', x, 1.0, 0, 1, groups=G)",
        "all_to_all": "xm.all_to_all(x, 0, 0, 1, groups=G)",
    }[name]
    text = (
        "import torch, torch_xla\n{}\nG = [[0], [1, 2]]\n"
        "x = torch.ones(4).to(torch_xla.device())\ntry:\n    {}.tolist()\n"
        "except (AssertionError, RuntimeError, ValueError):\n    print('refused')"
    )
    standing_in = (
        "from overlayccl_core.backends.torchxla.standin import xla_model as xm\n"
        "from overlayccl_core.backends.torchxla.standin.install import top as torch_xla"
    )
    for text_of in (
        text.format("import torch_xla.core.xla_model as xm", call),
        text.replace(", torch_xla", "").format(standing_in, call),
    ):
        done = subprocess.run([sys.executable, "-c", text_of], capture_output=True, text=True)
        assert done.stdout.strip() == "refused", done.stderr


def printed(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(source, "printed", "exec"), names)
    return names


def test_processes_that_torch_xla_does_not_join_are_refused() -> None:
    """torchrun on CPU: each process is a world of its own, whose all_reduce returns what it is given."""
    import torch_xla.runtime as xr

    program = all_known_ways(small_case("tp_mlp", 4))["forward developer"]
    assert xr.world_size() == 1 and program.collectives[0].kind is Kind.ALL_REDUCE
    with pytest.raises(RuntimeError, match=r"for 4 ranks.* 1 .*is CPU"):
        printed(emit(program))["connect"]()


def test_a_deployed_module_asks_torch_xla_who_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_xla

    case = small_case("tp_mlp", 4)
    stamp = Stamp(library="cpu", versions={})
    names = printed(deployed_module("tp_mlp", [entry(case, "developer")], stamp, calls=CALLS))
    assert names["everybody_says"]({"a": (1, None)}) == [{"a": (1, None)}]
    assert names["everybody_says"]("b", [[0]]) == ["b"]
    versions = {"torch": metadata.version("torch"), "torch-xla": metadata.version("torch-xla")}
    for token in ("0", "1"):
        monkeypatch.setenv(NUMERIC_TOKEN, token)
        found = names["found"](torch_xla.device())
        assert found == {"library": "cpu", **versions, NUMERIC_TOKEN: token}
        assert {"library", *VERSIONS} >= set(found)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    names["check_started"]()
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match=r"4 ranks .*started.*has 1"):
        names["connect"](case.id, device=torch_xla.device())


TWO_GATHERS = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
x, y = (torch.ones(4).to(torch_xla.device()) for _ in range(2))
torch_xla.sync()
made = [xm.all_gather(one, groups=[[0]], pin_layout=False) for one in (x, y)]
print(torch_xla._XLAC._get_xla_tensors_hlo(made).count(" add("))
"""


@pytest.mark.parametrize(
    ("value", "chained"), [("", True), ("0", True), ("false", True), ("1", False), ("true", False)]
)
def test_the_stand_in_reads_what_ends_the_chain_as_the_real_one_does(
    monkeypatch: pytest.MonkeyPatch, value: str, chained: bool
) -> None:
    """A process each: the real one may keep what it has read."""
    from overlayccl_core.backends.torchxla.standin import xla_model

    monkeypatch.setenv("DISABLE_NUMERIC_CC_TOKEN", value)
    monkeypatch.setenv("XLA_ALWAYS_ALLREDUCE", "1")
    ran = subprocess.run([sys.executable, "-c", TWO_GATHERS], capture_output=True, text=True, check=True)
    assert (int(ran.stdout) > 0) is chained
    assert xla_model._is_set("DISABLE_NUMERIC_CC_TOKEN") is not chained
