"""The step driver's rule, seen without ranks: generators and segments that only note what they do."""

import weakref
from collections.abc import Generator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from overlayccl_core.program.nodes import Port
from overlayccl_core.step.driver import SiteModule, StuckStep, run_step
from overlayccl_core.step.segment import Name, StepSegment, Value


class Read:
    def __init__(self, *port: str | int) -> None:
        self.port = port


class Write:
    def __init__(self, *port_and_value: Any) -> None:
        self.port, self.value = port_and_value[:-1], port_and_value[-1]


def module(site: str, *ports: tuple[Port, ...]) -> SiteModule:
    """Reads a group of ("in", i), then writes their ("out", i), group by group."""

    def generator() -> Generator[Any, Any, None]:
        for group in ports:
            held = []
            for port in group:
                held.append((yield Read(*port)))
            for port, value in zip(group, held, strict=True):
                yield Write("out", *port[1:], value)

    shapes = {("out", *port[1:]): (1,) for group in ports for port in group}
    return SiteModule(site=site, generator=generator(), read=Read, shapes=shapes)


class Model:
    """Segments that note their names."""

    def __init__(self) -> None:
        self.ran: list[Name] = []

    def segment(
        self,
        name: str,
        needs: tuple[Value, ...] = (),
        gives: tuple[Value, ...] = (),
        after: tuple[Name, ...] = (),
        left_over: bool = False,
    ) -> StepSegment:
        def work(values: Any) -> dict[Value, torch.Tensor]:
            assert set(values) == set(needs)
            self.ran.append((name,))
            return dict.fromkeys(gives, torch.ones(1))

        return StepSegment(
            name=(name,), needs=needs, gives=gives, after=after, work=work, left_over=left_over
        )


def port(site: str, name: str, i: int) -> Value:
    return site, (name, i)


class Watched:
    """Tensors of which is known whether anybody holds them."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def new(self, name: str) -> torch.Tensor:
        array = np.ones(1, np.float32)
        self.arrays[name] = weakref.ref(array)
        return torch.from_numpy(array)  # its storage holds the array

    def alive(self) -> set[str]:
        return {name for name, array in self.arrays.items() if array() is not None}


def test_backward_goes_on_before_forward() -> None:
    model = Model()
    segments = [
        model.segment("f0", gives=(port("forward", "in", 0),)),
        model.segment("f1", gives=(port("forward", "in", 1),)),
        model.segment("b0", needs=(port("forward", "out", 0),), gives=(port("backward", "in", 0),)),
        model.segment("e0", needs=(port("backward", "out", 0),)),
        model.segment("e1", needs=(port("forward", "out", 1),)),
    ]
    run_step([module("backward", (("in", 0),)), module("forward", (("in", 0),), (("in", 1),))], segments)
    assert model.ran == [("f0",), ("b0",), ("e0",), ("f1",), ("e1",)]


def test_a_segment_without_needs_waits_for_its_reader_and_runs_what_it_comes_after() -> None:
    model = Model()
    segments = [
        model.segment("g1", gives=(port("s", "in", 1),)),
        model.segment("g0", gives=(port("s", "in", 0),), after=(("before",),)),
        model.segment("before"),
        model.segment("nobody asks"),
    ]
    run_step([module("s", (("in", 0),), (("in", 1),))], segments)
    assert model.ran == [("before",), ("g0",), ("g1",), ("nobody asks",)]


@pytest.mark.parametrize("lets_work", [True, False])
def test_what_is_left_over_runs_while_a_call_is_in_flight_or_before_the_next_segment(lets_work: bool) -> None:
    model = Model()
    segments = [
        model.segment("b1", gives=(port("entry", "in", 1),)),
        model.segment("w1", after=(("b1",),), left_over=True),
        model.segment("b0", needs=(port("entry", "out", 1),), gives=(port("entry", "in", 0),)),
        model.segment("w0", after=(("b0",),), left_over=True),
        model.segment("end", needs=(port("entry", "out", 0),)),
    ]
    nothing = {"meanwhile": lambda: None} if lets_work else {}
    emitted = SimpleNamespace(**nothing)

    def generator() -> Generator[Any, Any, None]:
        for i in (1, 0):
            value = yield Read("in", i)
            model.ran.append(("issued",))
            if lets_work:
                emitted.meanwhile()
            model.ran.append(("waited",))
            yield Write("out", i, value)

    one = module("entry", (("in", 0),), (("in", 1),))
    run_step([replace(one, generator=generator(), module=emitted)], segments)
    flight = [("issued",), ("waited",)]
    if lets_work:
        expected = [("b1",), ("issued",), ("w1",), ("waited",), ("b0",), ("issued",), ("w0",), ("waited",)]
    else:
        expected = [("b1",), *flight, ("w1",), ("b0",), *flight, ("w0",)]
    assert model.ran == [*expected, ("end",)]
    assert vars(emitted) == nothing  # and does not hold the step


def test_a_segment_without_needs_does_not_run_because_another_has() -> None:
    model = Model()
    segments = [
        model.segment("g0", gives=(port("s", "in", 0),)),
        model.segment("g1", gives=(port("s", "in", 1),), after=(("g0",),)),
        model.segment("e0", needs=(port("s", "out", 0),)),
        model.segment("last", needs=(port("s", "out", 0),), after=(("g1",),)),
    ]
    run_step([module("s", (("in", 0),), (("in", 1),))], segments)
    assert model.ran == [("g0",), ("e0",), ("g1",), ("last",)]


def test_what_no_segment_can_use_yet_is_not_written_while_another_module_can_go_on() -> None:
    """What the first module reads is there from the start, as parameters are."""
    held = Watched()
    most: list[int] = []

    def gives(*values: Value) -> Any:
        def work(_values: Any) -> dict[Value, torch.Tensor]:
            most.append(len(held.alive()))
            return dict.fromkeys(values, torch.ones(1))

        return work

    def generator(site: str) -> Generator[Any, Any, None]:
        yield Read("in", 0)
        for i in range(3):
            yield Write("out", i, held.new(f"{site} {i}"))

    shapes = {("out", i): (1,) for i in range(3)}
    modules = [
        SiteModule(site=site, generator=generator(site), read=Read, shapes=shapes)
        for site in ("backward", "forward")
    ]
    segments = [
        StepSegment(name=(f"{site} start",), gives=(port(site, "in", 0),), work=gives(port(site, "in", 0)))
        for site in ("backward", "forward")
    ]
    for i in range(3):
        forward, backward = port("forward", "out", i), port("backward", "out", i)
        segments.append(StepSegment(name=("f", i), needs=(forward,), work=gives()))
        segments.append(StepSegment(name=("b", i), needs=(backward,), after=(("f", i),), work=gives()))
    run_step(modules, segments)
    assert max(most) == 2  # what runs, and one write at the door


def test_two_values_of_a_segment_are_written_before_another_module_begins() -> None:
    """Keys and values: the first one alone lets nothing run, and still its module goes on."""
    model = Model()
    segments = []
    for site in ("s", "t"):
        given = (port(site, "in", 0), port(site, "in", 1))
        needed = (port(site, "out", 0), port(site, "out", 1))
        segments += [
            model.segment(f"{site} gives", gives=given),
            model.segment(f"{site} takes", needs=needed),
        ]
    run_step([module(site, (("in", 0), ("in", 1))) for site in ("s", "t")], segments)
    assert [name for (name,) in model.ran] == ["s gives", "s takes", "t gives", "t takes"]


def test_orders_that_wait_for_each_other_are_named() -> None:
    model = Model()
    segments = [
        model.segment("a", needs=(port("t", "out", 0),), gives=(port("s", "in", 0),)),
        model.segment("b", needs=(port("s", "out", 0),), gives=(port("t", "in", 0),)),
    ]
    with pytest.raises(StuckStep, match=r"s .*in\[0\]; t .*in\[0\]"):
        run_step([module("s", (("in", 0),)), module("t", (("in", 0),))], segments)


def test_a_segment_that_needs_what_nobody_writes_is_named() -> None:
    segments = [Model().segment("late", needs=(port("s", "out", 7),))]
    with pytest.raises(StuckStep, match=r"late .*: s out\[7\]"):
        run_step([module("s")], segments)


def test_a_value_is_dropped_once_its_last_segment_has_run_or_its_module_has_it() -> None:
    watched = Watched()
    seen: dict[str, set[str]] = {}

    def generator() -> Generator[Any, Any, None]:
        yield Read("in", 0)  # and lets it go
        yield Write("out", 0, watched.new("out"))
        yield Write("out", 1, watched.new("nobody needs it"))
        yield Read("in", 1)

    def segment(name: str, **fields: Any) -> StepSegment:
        def work(_values: Any) -> dict[Value, torch.Tensor]:
            seen[name] = watched.alive()
            return {value: watched.new("in") for value in fields.get("gives", ())}

        return StepSegment(name=(name,), work=work, **fields)

    out, later = port("s", "out", 0), port("s", "in", 1)
    first = segment("first", needs=(out,))
    last = segment("last", needs=(out,), after=(("first",),))
    shapes = {("out", 0): (1,), ("out", 1): (1,)}
    run_step(
        [SiteModule(site="s", generator=generator(), read=Read, shapes=shapes)],
        [segment("gives", gives=(port("s", "in", 0),)), last, first, segment("gives more", gives=(later,))],
    )
    assert seen == {"gives": set(), "first": {"out"}, "last": {"out"}, "gives more": set()}
