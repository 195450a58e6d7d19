"""What one step does, counted while it runs: matmuls, calls of the collective library, bytes that it holds."""

import hashlib
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from overlayccl_core.backends.rank import Deployed
from overlayccl_core.program.calls import CALL_NAMES
from overlayccl_core.training.kernels import FSDP_COPIES, UnknownKernel, multiplies
from overlayccl_core.training.segments import Tensor

LibraryCalls = Callable[[str], int | None]
"""`Rank.library_calls`."""


def no_library(_operation: str) -> int | None:
    """Where nothing calls a library."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of one run: matmuls, a digest of their shapes in any order, library calls, most bytes held at a time.

    Held is what is saved for backward, and what a module that gathers parameters has touched while it is alive.
    """

    matmuls: int
    matmul_digest: str
    collectives: int
    peak_activation_bytes: int


def inspect(
    step: Callable[[], Any],
    library_calls: LibraryCalls = no_library,
    is_gathering: Callable[[], bool] = lambda: False,
) -> Counts:
    """Run a step once and count. UnknownKernel if it ran what nobody knows to multiply matrices or not to.

    is_gathering: whether a module runs whose values count as memory of the step (`Pieces.gathering`).
    """
    held = _Held()
    operations, activations = _Operations(library_calls, held, is_gathering), _Activations(held)
    with operations, activations:
        step()
    if operations.unknown:
        raise UnknownKernel(operations.unknown)
    shapes = Counter(operations.matmuls)
    return Counts(
        matmuls=shapes.total(),
        matmul_digest=hashlib.blake2b(repr(sorted(shapes.items())).encode(), digest_size=8).hexdigest(),
        collectives=operations.calls,
        peak_activation_bytes=held.peak,
    )


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Every operation on its way to its kernel, those of the backward pass and of the library's C++ included."""

    def __init__(self, library_calls: LibraryCalls, held: "_Held", is_gathering: Callable[[], bool]) -> None:
        super().__init__()
        self.library_calls = library_calls
        self.held = held
        self.is_gathering = is_gathering
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
        result = function(*args, **(kwargs or {}))
        if name.startswith(FSDP_COPIES) or self.is_gathering():
            for one in tree_leaves((args, kwargs, result)):
                if isinstance(one, torch.Tensor):
                    self.held.while_alive(one.untyped_storage())
        return result


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

    for name in CALL_NAMES:
        if hasattr(module, name):
            setattr(module, name, counted(getattr(module, name)))
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
        "all_reduce_coalesced": lambda xs, *_: xs,
        "all_gather": lambda x, size, _: x.repeat(size // x.numel()),
        "reduce_scatter": lambda x, size, *_: x[:size].clone(),
        "all_to_all": lambda x, _: x.clone(),
        "collective_permute": lambda x, *_: x.clone(),
    }
    for name, function in local.items():
        if hasattr(module, name):
            setattr(module, name, lambda *arguments, f=function: (f(*arguments), done))


class _Held:
    """Storage that somebody holds, and the most bytes at a time; views of one count once.

    Sizes are asked for anew: a storage may be given up by making it empty (torch's FSDP).
    """

    def __init__(self) -> None:
        self.peak = 0
        self._holders: Counter[int] = Counter()
        self._storages: dict[int, Callable[[], Any]] = {}  # without holding them: weak references
        self._alive: set[int] = set()

    def hold(self, storage: Any) -> int:
        """One more holder. Returns what tells the storage."""
        which = int(storage._cdata)
        self._holders[which] += 1
        self._storages.setdefault(which, weakref.ref(storage))
        held = [
            one() for one in list(self._storages.values())
        ]  # a list: asking may free some, which releases
        self.peak = max(self.peak, sum(one.nbytes() for one in held if one is not None))
        return which

    def release(self, which: int) -> None:
        """One fewer."""
        self._holders[which] -= 1
        if not self._holders[which]:
            del self._holders[which], self._storages[which]

    def while_alive(self, storage: Any) -> None:
        """Held until nothing uses it any more."""
        if int(storage._cdata) not in self._alive:
            which = self.hold(storage)
            self._alive.add(which)
            weakref.finalize(storage, self._gone, which).atexit = False

    def _gone(self, which: int) -> None:
        self._alive.remove(which)
        self.release(which)


class _Activations(torch.autograd.graph.saved_tensors_hooks):  # type: ignore[misc]
    """What autograd holds for the backward pass.

    Parameters that a backward pass needs are among them, the same bytes in every arm.
    """

    def __init__(self, held: _Held) -> None:
        super().__init__(lambda tensor: _Saved(held, tensor), lambda saved: saved.tensor)


class _Saved:
    """A saved tensor; autograd drops it after the backward pass."""

    __slots__ = ("held", "tensor", "which")

    def __init__(self, held: _Held, tensor: Tensor) -> None:
        self.held = held
        self.tensor = tensor.detach()
        self.which = held.hold(tensor.untyped_storage())

    def __del__(self) -> None:
        self.held.release(self.which)
