"""Group calls of a deployed module under autograd, beside its bare generators, with identity collectives.

A pass calls the groups of all layers once, forward and backward. By hand, the generators of both directions are
answered with flat views of the same tensors, and what they write gets its shape. The difference is what autograd
and the promises of a group cost. CPU time of one process, rank 0 of 4.
"""

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

import torch

from benchmarks.emitted import NOBODY, identity_collectives
from benchmarks.pairs import ENTRIES, RANKS
from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.bench_driver import load_module
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose

REPEATS = 40
PASSES = 20
STEP_MS = 120.0  # of the shortest training step of `nano`
STRATEGIES = ("developer", "merged_over_microbatches", "all_to_all_of_copies")


def report() -> list[str]:
    """A line for each site, number of microbatches and strategy."""
    torch.set_num_threads(1)
    lines = [
        "group calls of a deployed tp_mlp, identity collectives: CPU us a group (forward and backward), by hand,"
        f" extra, extra a tensor, extra of all layers in a step of {STEP_MS:.0f} ms"
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
    group_us, by_hand_us = compared(connected)
    layers, tensors = len(connected.groups), len(connected.groups[0].inputs)
    extra = group_us - by_hand_us
    share = extra * layers / STEP_MS / 1e3
    return f"  {name:38s} {group_us:7.1f} {by_hand_us:7.1f}  {extra:+6.1f}  {extra / tensors:+5.1f}  {share:6.2%}"


def _connected(path: Path, site: str, microbatches: int, strategy: str) -> Any:
    """A Case of a module that was written to `path`, connected where nobody else is."""
    entry = {**ENTRIES["tp_mlp"], "microbatches": microbatches, "site": site}
    case = catalog.case("tp_mlp", entry, ranks=RANKS, ranks_per_node=RANKS)
    problem = catalog.backward(case)

    def programs(name: str) -> tuple[Program, Program | None]:
        forward = trace_source(catalog.library_source("tp_mlp"), name, catalog.build(case))
        return forward, problem and simplify(transpose(forward, problem))

    (forward, backward), (plain, plain_backward) = programs(strategy), programs("developer")
    one = DeployedCase(
        case_id=case.id, candidate=strategy, recipe="{}", numerics="reordered",
        forward=forward, plain_forward=plain, has_backward=problem is not None,
        backward=backward, plain_backward=plain_backward,
        backward_candidate=strategy if problem else "", backward_recipe="{}" if problem else "",
        backward_numerics="reordered" if problem else "",
    )  # fmt: skip
    path.write_text(deployed("tp_mlp", [one], Stamp(library="gloo", versions={"torch": torch.__version__})))
    module: ModuleType = load_module(path, path.stem)
    alone: Mapping[str, Callable[..., Any]] = {
        "check_started": lambda: None,
        "found": lambda _device: dict(module.PROVEN),
        "everybody_says": lambda mine, _group=None: [mine] * RANKS,
    }
    vars(module).update(alone)
    return module.connect(case.id, new_group=lambda _ranks: NOBODY)


def compared(connected: Any) -> tuple[float, float]:
    """CPU us of one group, forward and backward: (under autograd, generators answered by hand)."""
    groups = connected.groups
    xs = [[torch.randn(s.shape, requires_grad=True) for s in group._specs] for group in groups]
    cotangents = [[torch.randn(x.shape) for x in of] for of in xs]
    flat_xs = [x for of in xs for x in of]
    flat_cotangents = [c for of in cotangents for c in of]

    def under_autograd() -> None:
        ys = [y for group, of in zip(groups, xs, strict=True) for y in group(of)]
        torch.autograd.grad(ys, flat_xs, flat_cotangents)

    detached = [x.detach() for x in flat_xs]
    reads = [port for group in groups for port in group.inputs]
    forward = dict(zip(reads, detached, strict=True))
    both = [(connected.forward, forward)]
    if connected.entry.gradient == "backward":
        ports = [(f"d_{port[0]}", *port[1:]) for group in groups for port in group.outputs]
        both.append((connected.backward, dict(zip(ports, flat_cotangents, strict=True))))

    def by_hand() -> None:
        for generator, given in both:
            _answer(generator(), given)

    sides = (under_autograd, by_hand)
    with torch.no_grad():
        by_hand()
    times = [[_cpu_s(side) for side in sides] for _ in range(REPEATS)]
    return tuple(statistics.median(column) / len(groups) * 1e6 for column in zip(*times, strict=True))  # type: ignore[return-value]


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
