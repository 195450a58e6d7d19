"""Which calls each call is made from, on torch's fake process group: one process, no rank waits for another."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from overlayccl_core.process_group import seam
from overlayccl_core.process_group.calls import METHODS
from overlayccl_core.process_group.flow import Flow
from overlayccl_core.process_group.group import Group, plain
from overlayccl_core.process_group.origin import origin

RANKS = 4
Step = Callable[[], Any]


class Followed:
    """The calls of one step: what each depends on."""

    def __init__(self) -> None:
        self.flow = Flow()
        self.depends_on: list[list[int]] = []
        self.lines: list[str] = []

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.lines.append(origin()[0])
        known = METHODS[method]
        inputs, outputs = (None if at is None else args[at] for at in (known.inputs, known.outputs))
        self.depends_on.append(self.flow.call(len(self.depends_on), inputs, outputs))
        return plain(group, method, args, kwargs)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    """A fake job, of which this process is rank 0."""
    monkeypatch.setattr(c10d, "_new_process_group_helper", c10d._new_process_group_helper)
    made = Followed()
    seam.install(lambda: made, every=True)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield made
    dist.destroy_process_group()


def reduced(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    dist.all_reduce(y)
    return y


def chain(x: torch.Tensor) -> None:
    reduced(reduced(x) * 2)


def apart(x: torch.Tensor) -> None:
    reduced(x), reduced(x + 1)


def joined(x: torch.Tensor) -> None:
    reduced(reduced(x) + reduced(x))


def view(x: torch.Tensor) -> None:
    reduced(reduced(x)[:2].reshape(1, -1))


def written_over(x: torch.Tensor) -> None:
    y = reduced(x)
    y.copy_(x)  # nothing of the sum remains
    reduced(y)


def written_in_part(x: torch.Tensor) -> None:
    y = reduced(x)
    y[:2].copy_(x[:2])
    reduced(y)


def out_argument(x: torch.Tensor) -> None:
    y = torch.empty_like(x)
    torch.mul(reduced(x), 2, out=y)
    reduced(y)


def gathered(x: torch.Tensor) -> None:
    whole = torch.empty(RANKS * x.numel())
    dist.all_gather_into_tensor(whole, reduced(x))
    reduced(whole)


def two_into_one_buffer(x: torch.Tensor) -> None:
    buffer = torch.empty(2, x.numel())
    dist.broadcast(buffer[0], 0)
    dist.broadcast(buffer[1], 0)
    reduced(buffer)


def columns_of_one_buffer(x: torch.Tensor) -> None:
    buffer = torch.zeros(2, 2)
    dist.broadcast(buffer[:, 0].contiguous(), 0)
    buffer[:, 0] = reduced(x[:2])
    buffer[:, 1] = reduced(x[2:])
    reduced(buffer)


def buffer_used_again(x: torch.Tensor) -> None:
    buffer = torch.empty_like(x)
    buffer.copy_(x)
    dist.all_reduce(buffer)
    buffer.copy_(x)
    dist.all_reduce(buffer)


def backward(x: torch.Tensor) -> None:
    weight = torch.ones_like(x, requires_grad=True)
    (weight * reduced(x)).sum().backward()
    reduced(weight.grad)


def functional(x: torch.Tensor) -> None:
    first = collectives.all_reduce(x + 1, "sum", dist.group.WORLD) * 2
    collectives.all_reduce(first, "sum", dist.group.WORLD) + 0


def functional_twice(x: torch.Tensor) -> torch.Tensor:
    first = collectives.all_reduce(x + 1, "sum", dist.group.WORLD) * 2
    return collectives.all_reduce(first, "sum", dist.group.WORLD) + 0


def functional_thrice(x: torch.Tensor) -> None:
    for _ in range(3):
        x = collectives.all_reduce(x, "sum", dist.group.WORLD) * 2


def compiled(x: torch.Tensor) -> None:
    torch.compile(functional, backend="aot_eager")(x)  # the flow's operations are not compiled


def memory_of_a_freed_tensor(x: torch.Tensor) -> None:
    for _ in range(20):
        reduced(x)  # nobody keeps it
    collectives.all_reduce(x, "sum", dist.group.WORLD)  # torch sums a copy, in the memory that is free


def operation_new_to_dtensor(x: torch.Tensor) -> None:
    mesh = init_device_mesh("cpu", (RANKS,))
    mine = DTensor.from_local(reduced(x), mesh, [Shard(0)], run_check=False)
    reduced(torch.special.i0(mine).to_local())


@pytest.mark.parametrize(
    ("step", "depends_on"),
    [
        (chain, [[], [0]]),
        (apart, [[], []]),
        (joined, [[], [], [0, 1]]),
        (view, [[], [0]]),
        (written_over, [[], []]),
        (written_in_part, [[], [0]]),
        (out_argument, [[], [0]]),
        (gathered, [[], [0], [1]]),
        (two_into_one_buffer, [[], [], [0, 1]]),
        (columns_of_one_buffer, [[], [], [], [1, 2]]),
        (buffer_used_again, [[], []]),
        (backward, [[], [0]]),
        (functional, [[], [0]]),
        (functional_thrice, [[], [0], [1]]),
        (compiled, [[], [0]]),
        (memory_of_a_freed_tensor, [[] for _ in range(21)]),
        (operation_new_to_dtensor, [[], [0]]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_call_depends_on_the_calls_that_its_inputs_were_made_from(
    followed: Followed, step: Callable[[torch.Tensor], None], depends_on: list[list[int]]
) -> None:
    x = torch.arange(4.0)
    with followed.flow:
        step(x)
    assert followed.depends_on == depends_on


def test_calls_of_a_compiled_graph_are_seen_and_their_line_is_where_its_function_begins(
    followed: Followed,
) -> None:
    graph = torch.compile(functional_twice, backend="aot_eager", fullgraph=True)
    graph(torch.ones(4))
    begins = functional_twice.__code__.co_firstlineno
    assert followed.lines == [f"{__file__}:{begins}"] * 2


def test_calls_that_go_past_torchs_groups_are_not_seen(followed: Followed) -> None:
    """As libraries with communicators of their own make them: here a backend is called itself."""
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([torch.ones(4)])
    assert not followed.depends_on
