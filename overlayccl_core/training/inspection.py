"""Count one step while it runs: matmuls, calls of the collective library, bytes held.

Bytes are those of all live tensors touched by the step's operations: parameters and their gradients, activations,
and buffers of modules, the library or a framework. All arms are counted in this one way. A tensor of torch_xla has
no storage: it counts with its own bytes, and a view of it once more.
"""

import hashlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from overlayccl_core.backends.rank import Deployed
from overlayccl_core.program.calls import CALL_NAMES
from overlayccl_core.step.segment import StepSegment, Value, Work
from overlayccl_core.training.kernels import UnknownKernel, multiplies
from overlayccl_core.training.segments import Tensor

LibraryCalls = Callable[[str], int | None]
"""`Rank.library_calls`."""
TIMES = 2


def no_library(_operation: str) -> int | None:
    """Return None: no operation is a library's."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a step: matmuls, a digest of their shapes in any order, library calls, peak bytes held.

    peak_memory_bytes: None if memory was not counted.
    """

    matmuls: int
    matmul_digest: str
    collectives: int
    peak_memory_bytes: int | None


@dataclass(slots=True)
class ModelWork:
    """What of a step is the model's own: modules may multiply matrices, too, each way its own ones.

    Attributes:
        exchanged: Beginnings of names of kernels that do a Problem's work, in a step without modules.
        is_running: Whether the model's work is running; of a step without segments always.
    """

    exchanged: Sequence[str] = ()
    is_running: bool = True

    def within(self, segments: Iterable[StepSegment]) -> Iterator[StepSegment]:
        """Yield the segments of a step with modules: the model's work is in them alone."""
        self.is_running = False
        for segment in segments:
            yield replace(segment, work=partial(self._run, segment.work))

    def _run(self, work: Work, values: Mapping[Value, Tensor]) -> Mapping[Value, Tensor]:
        self.is_running = True
        try:
            return work(values)
        finally:
            self.is_running = False


def inspect(
    step: Callable[[], Any],
    library_calls: LibraryCalls = no_library,
    model: ModelWork | None = None,
    *,
    weighed: bool = True,
) -> Counts:
    """Count a step while it runs.

    With its memory it runs once, to find what is held between steps, then TIMES to be counted. The smallest peak
    holds: a thread of the library may keep a buffer for a moment longer than its call. Without memory it runs once.

    Args:
        model: Tells which matrix products are the model's (None: all are).
        weighed: Whether memory is counted.

    Raises:
        UnknownKernel: The step ran operations unknown to `kernels`.
    """
    operations = _Operations(library_calls, model or ModelWork(), weighs=weighed)
    with operations:
        if weighed:
            step()
        peaks = []
        for _ in range(TIMES if weighed else 1):
            operations.begin()
            step()
            peaks.append(operations.held.peak)
    if operations.unknown:
        raise UnknownKernel(operations.unknown)
    shapes = Counter(operations.matmuls)
    return Counts(
        matmuls=shapes.total(),
        matmul_digest=hashlib.blake2b(repr(sorted(shapes.items())).encode(), digest_size=8).hexdigest(),
        collectives=operations.calls,
        peak_memory_bytes=min(peaks) if weighed else None,
    )


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation on its way to its kernel, also of the backward pass and of the library's C++."""

    def __init__(self, library_calls: LibraryCalls, model: ModelWork, *, weighs: bool) -> None:
        super().__init__()
        self.library_calls = library_calls
        self.model = model
        self.weighs = weighs
        self.held = _Held()
        self.known: dict[Any, _Kernel] = {}  # asked once: a step has thousands
        self.begin()

    @property
    def unknown(self) -> set[str]:
        """Names of the operations unknown to `kernels`."""
        return {one.name for one in self.known.values() if one.calls is None and one.product is None}

    def begin(self) -> None:
        """Count from now on; live storage stays known."""
        self.matmuls: list[tuple[str, str]] = []
        self.calls = 0
        self.held.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        one = self.known.get(function) or self._asked(function)
        if one.calls is not None:
            self.calls += one.calls
        elif one.product and self.model.is_running and not one.name.startswith(tuple(self.model.exchanged)):
            self.matmuls.append(
                (one.name, repr([tuple(x.shape) for x in args if isinstance(x, torch.Tensor)]))
            )
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if self.weighs:
            for tensor in _tensors((*args, *kwargs.values(), result)):
                if not (tensor.is_meta or is_traceable_wrapper_subclass(tensor)):
                    self.held.see(tensor)
        return result

    def _asked(self, function: Any) -> "_Kernel":
        name = str(function.overloadpacket)
        calls = self.library_calls(name)
        product = None if calls is not None else multiplies(function)
        self.known[function] = _Kernel(name=name, calls=calls, product=product)
        return self.known[function]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """An operation. calls: Library calls, if it is the library's; product: Whether it multiplies matrices."""

    name: str
    calls: int | None
    product: bool | None


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among an operation's arguments or results, alone or in lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def count_calls(module: ModuleType | Deployed) -> Callable[[], int]:
    """Count a module's collectives from now on; return a function giving the count since its last call."""
    count = [0]
    before = 0 if isinstance(module, ModuleType) else module.calls

    def since() -> int:
        nonlocal before
        last, before = before, count[0] if isinstance(module, ModuleType) else module.calls
        return before - last

    if not isinstance(module, ModuleType):
        return since

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            count[0] += 1
            return function(*arguments)

        return call

    for name in CALL_NAMES:
        if hasattr(module, name):
            setattr(module, name, counted(getattr(module, name)))
    return since


class _Done:
    """A completed work handle."""

    def wait(self) -> None:
        """Return at once."""


def make_quiet(module: ModuleType | Deployed) -> None:
    """Replace the collectives of an emitted module by local work with results of the same sizes.

    The values are wrong: this is for timing a step without communication.
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


def make_waiting(module: ModuleType | Deployed) -> None:
    """Make an emitted module wait for each collective where it starts: nothing is in flight while others work."""
    done = _Done()

    def waited(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            value, work = function(*arguments)
            work.wait()
            return value, done

        return call

    for name in CALL_NAMES:
        if hasattr(module, name):
            setattr(module, name, waited(getattr(module, name)))


class _Held:
    """Live storages and their peak in bytes; views of one storage count once.

    Sizes are read again at a peak: torch's FSDP frees a storage by emptying it.
    """

    def __init__(self) -> None:
        self.peak = 0
        self._total = 0
        self._sizes: dict[int, int] = {}
        self._storages: dict[int, Callable[[], Any]] = {}  # weak references

    def see(self, tensor: Tensor) -> None:
        """Count a tensor's storage for as long as it lives."""
        storage, is_lazy = tensor.untyped_storage(), tensor.device.type == "xla"
        which = int(storage._cdata)
        if which not in self._sizes:
            if not is_lazy:
                self._storages[which] = weakref.ref(storage)
            weakref.finalize(storage, self._gone, which).atexit = False
        self._resize(which, tensor.nbytes if is_lazy else storage.nbytes())
        if self._total > self.peak:
            for other, one in list(self._storages.items()):  # a list: reading may free some
                if (alive := one()) is not None:
                    self._resize(other, alive.nbytes())
            self.peak = max(self.peak, self._total)

    def _resize(self, which: int, size: int) -> None:
        self._total += size - self._sizes.get(which, 0)
        self._sizes[which] = size

    def _gone(self, which: int) -> None:
        self._total -= self._sizes.pop(which)
        self._storages.pop(which, None)
