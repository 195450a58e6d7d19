"""What ranks run in the tests of exchanges by counts: beside the scenarios of other tests, some of its own."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from tests.emit.deployed_worker import SCENARIOS, Seen, main, said, with_set

MOE = Path(__file__).parents[2] / "examples/scripts/moe.py"
STEPS = 6


class Plain(torch.autograd.Function):
    """all_to_all_single with splits; gradients go the way back."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, give: list[int], take: list[int], group: dist.ProcessGroup
    ) -> torch.Tensor:
        ctx.give, ctx.take, ctx.group = give, take, group
        received = rows.new_empty(sum(take), *rows.shape[1:])
        dist.all_to_all_single(received, rows, take, give, group=group)
        return received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return Plain.apply(gradient.contiguous(), ctx.take, ctx.give, ctx.group), None, None, None


def stepped(rank: Rank, path: Path, case: str, width: int, steps: list[list[list[list[int]]]]) -> Seen:
    """Rows there and back with other counts at every step: values and gradients against the plain call.

    steps: of each group that runs the Case at the same time.
    """
    module = load_module(path, path.stem)
    connected = module.connect(case)
    exchange = module.by_counts(connected, width)
    dtype = connected.entry.inputs["forward"]["send",].dtype
    groups = [dist.new_group(list(ranks)) for ranks in connected.members]
    mine, place = connected.members.index(connected.ranks), connected.rank
    same = []
    for step, matrix in enumerate(steps[mine]):
        random = torch.Generator().manual_seed(100 * step + rank.index)
        give, take = matrix[place], [counts[place] for counts in matrix]
        x, weights = (torch.randn(sum(n), width, generator=random).to(dtype) for n in (give, take))
        x[:, 0] = -0.0
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        received, counts = exchange(one, torch.tensor(give) if step % 2 else give)
        returned, given = exchange(received * weights, counts)
        wanted = Plain.apply(other, give, take, groups[mine])
        back = Plain.apply(wanted * weights, take, give, groups[mine])
        (returned * x).sum().backward()
        (back * x).sum().backward()
        pairs = ((received, wanted), (returned, back), (one.grad, other.grad))
        same.append(all(map(bits_equal, *zip(*pairs, strict=True))) and (*counts, *given) == (*take, *give))
    return {
        "same": same, "capacity": exchange.capacity, "calls": exchange.calls, "overflowed": exchange.overflowed,
        "library": connected.stamp()["calls"],
    }  # fmt: skip


def bits_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Zeros of both signs differ."""
    return torch.equal(*(x.detach().contiguous().view(torch.uint8) for x in (a, b)))


def stepped_plain(rank: Rank, path: Path, **arguments: Any) -> Seen:
    """`stepped` with the plain calls."""
    return with_set("PLAIN", "1", lambda: stepped(rank, path, **arguments))  # type: ignore[no-any-return]


def trained(rank: Rank, path: Path, case: str) -> Seen:
    """The layer of the example script, trained with its own exchange and with one by counts."""
    module = load_module(path, path.stem)
    script = load_module(MOE, "moe")
    exchange = module.by_counts(module.connect(case))
    own = script.Exchange
    runs = []
    for way in (own, SimpleNamespace(apply=lambda x, give, _take: exchange(x, give)[0])):
        script.Exchange = way
        torch.manual_seed(0)
        layer = script.MoE()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.3)
        generator = torch.Generator().manual_seed(rank.index)
        for _ in range(STEPS):
            layer(torch.randn(64, script.DIM, generator=generator)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        runs.append(list(layer.parameters()))
    return {"same": all(map(bits_equal, *runs)), "calls": exchange.calls, "overflowed": exchange.overflowed}


def misused(rank: Rank, path: Path, case: str, other: str, width: int) -> Seen:
    """What all ranks hear if rank 1 gives something else; then an exchange that is as it should be."""
    module = load_module(path, path.stem)
    connected = module.connect(case)
    exchange, smaller = module.by_counts(connected), module.by_counts(module.connect(other))
    checked = with_set("CHECK", "1", lambda: module.by_counts(module.connect(case)))
    rows, counts = torch.ones(rank.ranks, width, requires_grad=True), [1] * rank.ranks
    odd = rank.index == 1

    def on_one(rows_of_one: Any, counts_of_one: Any) -> Callable[[], object]:
        return lambda: exchange(*((rows_of_one, counts_of_one) if odd else (rows, counts)))

    agreed = exchange(rows, counts)[1]
    second = exchange(rows, counts)[0].square().sum()
    return {
        "sum": said(on_one(rows, [2] * rank.ranks)),
        "negative": said(on_one(rows, [-1, 1, 1, 3])),
        "number": said(on_one(rows, [rank.ranks])),
        "no counts": said(on_one(rows, None)),
        "fractions": said(on_one(rows, torch.ones(rank.ranks))),
        "width": said(on_one(rows[:, 1:], counts)),
        "dtype": said(on_one(rows.double(), counts)),
        "no rows": said(on_one(None, counts)),
        "capacity": said(lambda: (smaller if odd else exchange)(rows, counts)),
        "width of one": said(lambda: module.by_counts(connected, 1 if odd else width)),
        "no divisor": said(lambda: module.by_counts(connected, width + 1)),
        "no number": said(lambda: module.by_counts(connected, float(width))),
        "known on one": said(lambda: checked(rows, agreed if odd else counts)),
        "flow": said(lambda: checked(rows.detach() if odd else rows, counts)),
        "second": said(lambda: torch.autograd.grad(second, rows, create_graph=True)),
        "values": float(exchange(rows * rank.index, counts)[0].sum()),
    }


SCENARIOS |= {f.__name__: f for f in (stepped, stepped_plain, trained, misused)}

if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
