"""What a rank of a timed launch does with its samples, without others."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core.backends.measured import FirstCall
from overlayccl_core.backends.torch_ranks import matmul, timer


def alone(graphs: Sequence[int]) -> Any:
    """A timer whose library has compiled so many graphs whenever it is asked, and whose calls take 1 s each."""
    clock, compiled = iter(range(0, 10**12, 10**9)), iter(graphs)
    rank = SimpleNamespace(
        index=1,
        ranks=2,
        folder=None,
        is_lazy=True,
        status=SimpleNamespace(work_on=lambda _: None),
        meet=lambda: None,
        now_ns=lambda: next(clock),
        compiled=lambda: (n := next(compiled), 0.25 * n),
        largest=lambda *values: list(values),
    )
    made = timer._Timer(rank, SimpleNamespace(jobs=[SimpleNamespace(beside=False)] * 2, started_ns=0))  # type: ignore[arg-type]
    made.modules = [(None, None)] * 2  # type: ignore[list-item]
    made.lead_in, made.repeats = (0, 0), (1, 1)
    made._call = lambda *_: None  # type: ignore[assignment,method-assign]
    return made


def test_what_a_first_call_takes_and_what_of_it_compiles_is_told_of_every_job() -> None:
    one = alone([2, 5, 5, 5])
    one._compile()
    assert one._first_of_all() == [
        FirstCall(us=1e6, compile_us=0.75e6, graphs=3),
        FirstCall(us=1e6, compile_us=0.0, graphs=0),
    ]


def test_a_graph_that_is_compiled_inside_a_sample_ends_the_launch() -> None:
    one = alone([7, 8])
    one.graphs = 7
    assert one._sample(0) == (0, 10**9)
    with pytest.raises(RuntimeError, match="1 graphs were compiled"):
        one._sample(0)


def test_a_visit_of_many_ranks_takes_as_long_as_they_need_to_agree() -> None:
    assert alone([])._beside_calls_s() == 1.0  # its clock goes on by a second whenever it is asked


def test_a_visit_takes_no_less_than_agreeing_ahead_of_time() -> None:
    one = alone([])
    one.rank.now_ns = lambda: 0
    assert one._beside_calls_s() == timer.VISIT_OVERHEAD_S


def test_matrices_are_multiplied_during_the_samples_of_a_job_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[bool] = []
    multiplied = threading.Event()
    monkeypatch.setattr(matmul.torch, "mm", lambda *_: multiplied.set())
    one = alone([0] * 4)

    def call(*_: Any) -> None:
        asked = one.plan.jobs[0].beside
        running.append(multiplied.wait(10.0) if asked else multiplied.is_set())

    one._call = call
    one._sample(0)
    one.plan.jobs[0].beside = True
    one._sample(0)
    assert running == [False, False, True, True]
    assert not [thread for thread in threading.enumerate() if "multiply" in thread.name]
