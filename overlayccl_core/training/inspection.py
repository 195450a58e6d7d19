"""What one step does, counted while it runs: matmuls, calls of the collective library, saved activations."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from overlayccl_core.backends.rank import Deployed
from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.training.kernels import UnknownKernel, multiplies
from overlayccl_core.training.segments import Tensor

LibraryCalls = Callable[[str], int | None]
"""`Rank.library_calls`."""


def no_library(_operation: str) -> int | None:
    """Where nothing calls a library."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of one run: matmuls, a digest of their shapes in any order, library calls, most bytes saved for backward."""

    matmuls: int
    matmul_digest: str
    collectives: int
    peak_activation_bytes: int


def inspect(step: Callable[[], Any], library_calls: LibraryCalls = no_library) -> Counts:
    """Run a step once and count. UnknownKernel if it ran what nobody knows to multiply matrices or not to."""
    operations, activations = _Operations(library_calls), _Activations()
    with operations, activations:
        step()
    if operations.unknown:
        raise UnknownKernel(operations.unknown)
    shapes = Counter(operations.matmuls)
    return Counts(
        matmuls=shapes.total(),
        matmul_digest=hashlib.blake2b(repr(sorted(shapes.items())).encode(), digest_size=8).hexdigest(),
        collectives=operations.calls,
        peak_activation_bytes=activations.peak,
    )


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Every operation on its way to its kernel, those of the backward pass and of the library's C++ included."""

    def __init__(self, library_calls: LibraryCalls) -> None:
        super().__init__()
        self.library_calls = library_calls
        self.matmuls: list[tuple[str, str]] = []
        self.calls = 0
        self.unknown: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function.overloadpacket)
        if (calls := self.library_calls(name)) is not None:
            self.calls += calls
        elif (product := multiplies(function)) is None:
            self.unknown.add(name)
        elif product:
            self.matmuls.append((name, repr([tuple(x.shape) for x in args if isinstance(x, torch.Tensor)])))
        return function(*args, **(kwargs or {}))


def count_calls(module: ModuleType | Deployed) -> Callable[[], int]:
    """Count from now on the collectives that a module starts; returns what reads the count."""
    if not isinstance(module, ModuleType):
        before = module.calls
        return lambda: module.calls - before
    count = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[0] += 1
            return function(*arguments)

        return call

    for kind in COLLECTIVES:
        if hasattr(module, kind.value):
            setattr(module, kind.value, counted(getattr(module, kind.value)))
    return lambda: count[0]


class _Done:
    """A work that has ended."""

    def wait(self) -> None:
        """At once."""


def make_quiet(module: ModuleType | Deployed) -> None:
    """Replace the collectives of an emitted module by local work that gives tensors of the same sizes.

    What they give is wrong; how long the step takes without communication is what is asked.
    """
    done = _Done()
    local: dict[str, Callable[..., Tensor]] = {
        "all_reduce": lambda x, *_: x,
        "all_gather": lambda x, size, _: x.repeat(size // x.numel()),
        "reduce_scatter": lambda x, size, *_: x[:size].clone(),
        "all_to_all": lambda x, _: x.clone(),
        "collective_permute": lambda x, *_: x.clone(),
    }
    for name, function in local.items():
        if hasattr(module, name):
            setattr(module, name, lambda *arguments, f=function: (f(*arguments), done))


class _Activations(torch.autograd.graph.saved_tensors_hooks):  # type: ignore[misc]
    """Bytes of storage that autograd holds for the backward pass, and the most at a time; views count once.

    Parameters that a backward pass needs are among them, the same bytes in every arm.
    """

    def __init__(self) -> None:
        self.peak = self._now = 0
        self._holders: Counter[int] = Counter()
        super().__init__(self._pack, lambda held: held.tensor)

    def _pack(self, tensor: Tensor) -> "_Held":
        return _Held(self, tensor)

    def hold(self, tensor: Tensor) -> None:
        """One more saved tensor."""
        storage = tensor.untyped_storage()
        if not self._holders[storage.data_ptr()]:
            self._now += storage.nbytes()
            self.peak = max(self.peak, self._now)
        self._holders[storage.data_ptr()] += 1

    def release(self, tensor: Tensor) -> None:
        """One fewer."""
        storage = tensor.untyped_storage()
        self._holders[storage.data_ptr()] -= 1
        if not self._holders[storage.data_ptr()]:
            self._now -= storage.nbytes()


class _Held:
    """A saved tensor; autograd drops it after the backward pass."""

    __slots__ = ("owner", "tensor")

    def __init__(self, owner: _Activations, tensor: Tensor) -> None:
        self.owner = owner
        self.tensor = tensor.detach()
        owner.hold(self.tensor)

    def __del__(self) -> None:
        self.owner.release(self.tensor)
