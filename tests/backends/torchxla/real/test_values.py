"""What ranks compute between collectives: on the real torch_xla, with collectives among ranks of one process.

A rank is a thread, one of which runs at a time. A collective hands values over on the host and gives back a value
of the device, so that all that stands between collectives is traced, compiled and run by torch_xla.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from overlayccl_core.gates.on_ranks import inputs_of, wrong_values
from overlayccl_core.gates.small_values import itself
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.program import Program
from tests.backends.torchxla.modules import PROBLEMS, all_known_ways, emit, small_case
from tests.on_ranks import Arrays, integer_inputs, meaning

RANKS = 4
Lists = Sequence[Sequence[int]]


class Exchange:
    """What the ranks of one process give each other."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(RANKS)
        self.baton = threading.Lock()
        self._given: dict[int, Any] = {}

    def all(self, rank: int, value: Any) -> dict[int, Any]:
        """What each rank gives, on the host."""
        self._given[rank] = value.cpu()
        self._meet()
        taken = dict(self._given)
        self._meet()
        return taken

    def _meet(self) -> None:
        self.baton.release()
        try:
            self._barrier.wait(60)
        finally:
            self.baton.acquire()

    def calls(self, rank: int) -> dict[str, Any]:
        """What stands in a module in place of torch_xla's collectives."""
        import torch

        class Done:
            def wait(self) -> None:
                """At once."""

        def of(groups: Lists) -> Sequence[int]:
            return next(g for g in groups if rank in g)

        def started(compute: Callable[[Any, dict[int, Any]], Any]) -> Callable[..., Any]:
            def call(x: Any, *more: Any) -> Any:
                return compute(more, self.all(rank, x)).to(x.device), Done()

            return call

        def reduced(values: list[Any], op: Sequence[Any]) -> Any:
            stacked = torch.stack(values)
            return stacked.amax(0) if list(op) == ["max"] else stacked.sum(0)

        def permuted(more: Any, given: dict[int, Any]) -> Any:
            return next((given[s] for s, to in more[0] if to == rank), torch.zeros_like(given[rank]))

        return {
            "all_reduce": (one := started(lambda m, v: reduced([v[r] for r in of(m[0])], m[1:]))),
            "all_reduce_coalesced": lambda xs, *more: ([one(x, *more)[0] for x in xs], Done()),
            "all_gather": started(lambda m, v: torch.cat([v[r] for r in of(m[1])])),
            "reduce_scatter": started(
                lambda m, v: reduced([v[r] for r in of(m[1])], m[2:]).chunk(len(of(m[1])))[
                    of(m[1]).index(rank)
                ]
            ),
            "all_to_all": started(
                lambda m, v: torch.cat([v[r].chunk(len(of(m[0])))[of(m[0]).index(rank)] for r in of(m[0])])
            ),
            "collective_permute": started(permuted),
            "this_rank": lambda: rank,
            "world_size": lambda: RANKS,
        }


def run(program: Program, inputs: Arrays) -> Arrays:
    """port -> float64[RANKS, elements]."""
    import torch
    import torch_xla

    device, code = torch_xla.device(), compile(emit(program), "printed", "exec")
    exchange, errors = Exchange(), list[BaseException]()
    rows: list[dict[Any, Any]] = [{} for _ in range(RANKS)]

    def work(rank: int) -> None:
        names: dict[str, Any] = {"__name__": "printed"}
        exec(code, names)
        names |= exchange.calls(rank)
        names["connect"](on=device)
        steps = names[program.problem.direction.value]()
        try:
            event = next(steps)
            while True:
                if isinstance(event, names["Read"]):
                    dtype = getattr(torch, program.problem.inputs[event.port].dtype.value)
                    event = steps.send(torch.from_numpy(inputs[event.port][rank].copy()).to(dtype).to(device))
                else:
                    rows[rank][event.port] = event.value.cpu().double().numpy()
                    event = next(steps)
        except StopIteration:
            pass

    def guarded(rank: int) -> None:
        with exchange.baton:
            try:
                work(rank)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=guarded, args=(rank,), daemon=True) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]
    return {port: np.stack([row[port] for row in rows]) for port in program.problem.outputs}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_known_way_forward_and_backward_computes_what_it_means(problem: str) -> None:
    for name, program in all_known_ways(small_case(problem, RANKS)).items():
        if program.problem.linear:
            inputs = integer_inputs(program, seed=1)
            got, want = run(program, inputs), meaning(program, inputs)
            assert set(got) == set(want)
            assert [port for port in want if not np.array_equal(got[port], want[port])] == [], name
        else:
            inputs = dict(inputs_of(program.problem, 3))
            allowed = tolerance(NumericsClass.REORDERED, program)
            assert not wrong_values(itself(program), allowed, inputs, run(program, inputs)), name
