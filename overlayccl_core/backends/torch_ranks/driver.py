"""The driver of timed modules: answers every Read at once with a prepared tensor, keeps no Write."""

import importlib.util
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from overlayccl_core.backends.plan import PlannedJob
from overlayccl_core.backends.rank import Members, Rank
from overlayccl_core.program.nodes import Port

Function = Callable[[], Generator[Any, Any, None]]
NewGroup = Callable[[tuple[int, ...]], Any]  # makes the library's group of some global ranks
Inputs = Mapping[Port, torch.Tensor]
Prepared = tuple[int, torch.dtype, tuple[int, int] | None]  # elements, dtype, smallest and largest id


def load_module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class ConnectedCase:
    """A connected Case of a deployed file, with the attributes of an emitted module.

    Raises:
        RuntimeError: Its own selftest fails; on all ranks, naming rank, port and error.
    """

    def __init__(
        self, module: ModuleType, case: str, way: str, members: Members, new_group: NewGroup, device: str
    ) -> None:
        self.file = module
        self._connected = module.connect(
            case, members=members, new_group=new_group, device=device, strict=True, way=way
        )
        self._connected.selftest()
        self.Read = module.Read
        self.DIGEST: Mapping[str, str] = self._connected.stamp()["program"]
        own = {name: rows[self._connected.rank] for name, rows in self._connected.entry.arguments.items()}
        self.forward: Function = partial(self._connected.forward, **own)
        self.backward: Function = partial(self._connected.backward, **own)

    @property
    def calls(self) -> int:
        return sum(self._connected.stamp()["calls"].values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """One function of a connected emitted module: its generator function and its Read event."""

    function: Function
    read: Any

    @classmethod
    def load(cls, path: Path, name: str, job: PlannedJob, rank: Rank) -> "Emitted":
        """Import a job's module and connect it; call it on every rank in the same order."""
        module: Any = (
            rank.load_deployed(path, name, job.members, job.case, job.way)
            if job.deployed
            else rank.load(path, name, job.members)
        )
        return cls(function=getattr(module, job.function), read=module.Read)


def run(module: Emitted, inputs: Inputs) -> None:
    """Run a module to its end and drop its outputs.

    An emitted module has waited for every value it writes. On a device, values are there after `Rank.force`. If
    calls are recorded first, use `collect` to hold the outputs.
    """
    read = module.read
    generator = module.function()
    try:
        event = next(generator)
        while True:
            event = generator.send(inputs[event.port]) if event.__class__ is read else next(generator)
    except StopIteration:
        return


def collect(module: Emitted, inputs: Inputs) -> dict[Port, torch.Tensor]:
    """Run a module to its end and return its outputs: port -> flat tensor."""
    outputs: dict[Port, torch.Tensor] = {}
    generator = module.function()
    try:
        event = next(generator)
        while True:
            if event.__class__ is module.read:
                event = generator.send(inputs[event.port])
            else:
                outputs[event.port] = event.value
                event = next(generator)
    except StopIteration:
        return outputs


class InputPool:
    """Prepared tensors: different ones for the ports of one Program, shared between Programs."""

    def __init__(self, seed: int, device: str) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self._device = device
        self._held: dict[Prepared, list[torch.Tensor]] = {}

    def take(self, ports: Mapping[Port, Prepared]) -> dict[Port, torch.Tensor]:
        """Return a tensor for each port: unit normals, or ids."""
        used: dict[Prepared, int] = {}
        taken = {}
        for port, kind in ports.items():
            held = self._held.setdefault(kind, [])
            index = used.get(kind, 0)
            if index == len(held):
                held.append(self._drawn(*kind).to(self._device, kind[1]))
            taken[port] = held[index]
            used[kind] = index + 1
        return taken

    def _drawn(self, elements: int, dtype: torch.dtype, within: tuple[int, int] | None) -> torch.Tensor:
        if within is None:
            return torch.randn(elements, generator=self._random)
        return torch.randint(within[0], within[1] + 1, (elements,), generator=self._random)
