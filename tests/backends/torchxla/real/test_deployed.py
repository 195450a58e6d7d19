"""Deployed modules on the real torch_xla, with collectives of a world in which all ranks hold the same.

Such collectives are functions of what one rank has, so one process is enough for groups, gradients and selftest.
"""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Direction
from tests.backends.torchxla.modules import CALLS
from tests.emit.deployed_modules import entry

RANKS = 2


def case(problem: str, **fields: Any) -> Case:
    return catalog.case(problem, fields, ranks=RANKS, ranks_per_node=RANKS, uniform=True)


@pytest.fixture
def here() -> Stamp:
    return Stamp(
        library="cpu",
        versions={"torch": metadata.version("torch"), "torch-xla": metadata.version("torch-xla")},
    )


def module(rank: int, stamp: Stamp, *entries: DeployedCase) -> dict[str, Any]:
    """What the file holds, for a rank."""
    import torch

    class Done:
        def wait(self) -> None:
            """At once."""

    def call(compute: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x, *_: (compute(x), Done())

    problem = entries[0].problems[Direction.FORWARD].case.problem
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(deployed_module(problem, entries, stamp, calls=CALLS), "printed", "exec"), names)
    names.update(
        all_reduce=call(lambda x: x * RANKS),
        all_gather=call(lambda x: torch.cat([x] * RANKS)),
        collective_permute=call(torch.zeros_like),
        this_rank=lambda: rank,
        world_size=lambda: RANKS,
        check_started=lambda: None,
        everybody_says=_everybody_says,
    )
    return names


def _everybody_says(mine: Any, group: Any = None) -> list[Any]:
    """As the real one: what was traced is run first."""
    import torch_xla

    torch_xla.sync()
    return [mine] * RANKS


def test_groups_and_gradients_on_the_device_and_what_it_was_proven_with(here: Stamp) -> None:
    import torch
    import torch_xla

    device = torch_xla.device()
    sites = [
        case("tp_mlp", microbatches=2, layers=2, shape=[1, 3, 6], site=site) for site in ("exit", "entry")
    ]
    names = module(0, here, *(entry(site, "merged_over_microbatches") for site in sites))
    leave, enter = (names["connect"](one, device=device, strict=True) for one in names["cases"]())
    xs = [torch.full((1, 3, 6), i + 1.0, device=device, requires_grad=True) for i in range(2)]
    ys = leave.group(0)(enter.group(0)(xs))
    assert [y.mean().item() for y in ys] == [2.0, 4.0]
    ys[0].detach().add_(1)
    torch.stack(ys).sum().backward()
    assert [x.grad.mean().item() for x in xs if x.grad is not None] == [2.0, 2.0]
    assert [x.mean().item() for x in xs] == [1.0, 2.0] and leave.stamp()["differs"] == []
    with pytest.raises(ValueError, match=r"xla:0; got 2, .*cpu at 0"):
        leave.group(0)([torch.zeros(1, 3, 6)] * 2)


def test_the_selftest_is_one_graph_on_all_ranks(here: Stamp) -> None:
    """The first rank compiles all that the second needs, though other rows mean nothing there."""
    import torch_xla
    from torch_xla.debug import metrics

    pairs = case("pp_send_recv", microbatches=2, shape=[1, 2, 3])
    compiled = []
    for rank in range(RANKS):
        names = module(rank, here, entry(pairs, "send_receive"))
        checked = names["connect"](pairs.id, device=torch_xla.device()).selftest()
        assert [line["error"] for line in checked] == [0.0]
        compiled.append(metrics.counter_value("UncachedCompile"))
    assert compiled[0] == compiled[1]
