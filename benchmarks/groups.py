"""Group calls of a deployed module under autograd, beside its bare generators, with identity collectives.

A pass calls the groups of all layers once, forward and backward. By hand, the generators of both directions are
answered with flat views of the same tensors, and what they write gets its shape. An empty autograd.Function of as
many tensors, called as the groups are, is what torch takes for any step of a model. The rest is what a group adds.
CPU time of one process, rank 0 of 4; the least of many passes, which others on the machine disturb least.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

import torch

from benchmarks.emitted import NOBODY, identity_collectives
from benchmarks.pairs import ENTRIES, RANKS
from overlayccl_core import catalog
from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Proven, Stamp, Way
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose

REPEATS = 60
PASSES = 2
STEP_MS = 120.0  # of the shortest training step of `nano`
STRATEGIES = ("merged_over_microbatches", "all_to_all_of_copies")


def report() -> list[str]:
    """A line for each site, number of microbatches and strategy."""
    torch.set_num_threads(1)
    lines = [
        "group calls of a deployed tp_mlp, identity collectives: CPU us a group, forward and backward; generators",
        f"by hand; an empty autograd.Function; the rest; the rest of all layers in a step of {STEP_MS:.0f} ms",
    ]
    with tempfile.TemporaryDirectory() as folder, identity_collectives():
        for microbatches in (2, 8):
            for site in ("exit", "entry"):
                for strategy in STRATEGIES:
                    name = f"{site} m{microbatches} {strategy}"
                    path = Path(folder) / f"{name.replace(' ', '_')}.py"
                    lines.append(_line(name, _connected(path, site, microbatches, strategy)))
    return lines


def _line(name: str, connected: Any) -> str:
    group_us, by_hand_us, empty_us = compared(connected)
    rest = group_us - by_hand_us - empty_us
    share = rest * len(connected.groups) / STEP_MS / 1e3
    return f"  {name:38s} {group_us:7.1f} {by_hand_us:7.1f} {empty_us:7.1f}  {rest:+6.1f}  {share:6.2%}"


def _connected(path: Path, site: str, microbatches: int, strategy: str) -> Any:
    """A Case of a module that was written to `path`, connected where nobody else is."""
    entry = {**ENTRIES["tp_mlp"], "microbatches": microbatches, "site": site}
    case = catalog.case("tp_mlp", entry, ranks=RANKS, ranks_per_node=RANKS)
    problem = catalog.backward(case)

    def way(name: str) -> Way:
        forward = trace_source(catalog.library_source("tp_mlp"), name, catalog.build(case))
        programs = {Direction.FORWARD: forward}
        if problem:
            programs[Direction.BACKWARD] = simplify(transpose(forward, problem))
        said = {"candidate": name, "recipe": "{}", "numerics": "reordered"}
        return {direction: Proven(program=program, **said) for direction, program in programs.items()}

    ways = {CHOSEN: way(strategy), PLAIN: way("developer")}
    one = DeployedCase(case_id=case.id, has_backward=problem is not None, ways=ways)
    path.write_text(deployed("tp_mlp", [one], Stamp(library="gloo", versions={"torch": torch.__version__})))
    module: ModuleType = load_module(path, path.stem)
    alone: Mapping[str, Callable[..., Any]] = {
        "check_started": lambda: None,
        "found": lambda _device: dict(module.PROVEN),
        "everybody_says": lambda mine, _group=None: [mine] * RANKS,
    }
    vars(module).update(alone)
    return module.connect(case.id, new_group=lambda _ranks: NOBODY)


def compared(connected: Any) -> list[float]:
    """CPU us of one group, forward and backward: groups, generators answered by hand, an empty Function."""
    groups = connected.groups
    xs = [[torch.randn(s.shape, requires_grad=True) for s in group._specs] for group in groups]
    flat_xs = [x for of in xs for x in of]
    flat_cotangents = [torch.randn(x.shape) for x in flat_xs]

    def differentiated(calls: Sequence[Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]]) -> None:
        ys = [y for call, of in zip(calls, xs, strict=True) for y in call(of)]
        torch.autograd.grad(ys, flat_xs, flat_cotangents)

    empty = [lambda of: _Empty.apply(*of)] * len(groups)
    detached = [x.detach() for x in flat_xs]
    reads = [port for inputs, _ in connected.entry.groups for port in inputs]
    forward = dict(zip(reads, detached, strict=True))
    both = [(connected.forward, forward)]
    if connected.entry.gradient == "backward":
        ports = [(f"d_{port[0]}", *port[1:]) for group in groups for port in group.outputs]
        both.append((connected.backward, dict(zip(ports, flat_cotangents, strict=True))))

    def by_hand() -> None:
        for generator, given in both:
            _answer(generator(), given)

    sides = (lambda: differentiated(groups), by_hand, lambda: differentiated(empty))
    times = [[_cpu_s(side) for side in sides] for _ in range(REPEATS)]
    return [min(column) / len(groups) * 1e6 for column in zip(*times, strict=True)]


class _Empty(torch.autograd.Function):  # type: ignore[misc]
    """Gives and takes back what it gets."""

    @staticmethod
    def forward(_ctx: Any, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return xs

    @staticmethod
    def backward(_ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return cotangents


def _answer(events: Any, given: Mapping[Any, torch.Tensor]) -> None:
    """Flat views in, shapes out, as a step does that is driven by the events."""
    shape = next(iter(given.values())).shape
    held = {}
    try:
        event = next(events)
        while True:
            if event.__class__.__name__ == "Read":
                event = events.send(given[event.port].view(-1))
            else:
                held[event.port] = event.value.view(shape)
                event = next(events)
    except StopIteration:
        return


def _cpu_s(side: Callable[[], None]) -> float:
    start = process_time()
    for _ in range(PASSES):
        side()
    return (process_time() - start) / PASSES
