"""Which collectives of a step each collective was made from: data flow over the operations of one step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .calls import tensors

Calls = frozenset[int]
NONE: Calls = frozenset()
Part = tuple[int, int, Calls]
"""(first byte, byte after the last, what they were made from) of a storage."""


class MadeFrom:
    """Which calls each byte of memory was made from. A tensor with gaps counts as all bytes from first to last."""

    def __init__(self) -> None:
        self._parts: dict[int, list[Part]] = {}
        self._storages: dict[int, StorageWeakRef] = {}  # no later storage gets the address of one of these

    def of(self, tensor: torch.Tensor) -> Calls:
        """Return the calls that a tensor was made from."""
        storage, begin, end, _ = _place(tensor)
        return NONE.union(
            *(made for first, after, made in self._parts.get(storage, ()) if first < end and begin < after)
        )

    def write(self, tensor: torch.Tensor, made_from: Calls) -> None:
        """A tensor is written: what its bytes were made from before counts no more, unless it has gaps."""
        storage, begin, end, has_gaps = _place(tensor)
        kept = [part for part in self._parts.get(storage, ()) if has_gaps or part[0] < begin or end < part[1]]
        self._parts[storage] = [*kept, (begin, end, made_from)]
        if storage not in self._storages:
            self._storages[storage] = StorageWeakRef(tensor.untyped_storage())


READ = {
    *(torch.equal, torch.allclose, torch.Tensor.equal, torch.Tensor.allclose),
    *(getattr(torch.Tensor, name) for name in ("item", "tolist", "numpy", "__array__")),
    *(getattr(torch.Tensor, f"__{kind}__") for kind in ("bool", "int", "float", "complex", "index")),
}
"""By what a script learns a value: what it does afterwards may depend on it."""


class Reads(TorchFunctionMode):
    """Tells of each tensor whose value the script reads, while it is active."""

    def __init__(self, tell: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_function__(
        self, function: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a function of torch."""
        if function in READ:
            for tensor in tensors(args):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter):
                    self._tell(tensor)
        return function(*args, **(kwargs or {}))


class Flow(TorchDispatchMode):
    """Follows which calls the memory of tensors was made from, while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self._read: Calls = NONE  # what the script knows
        self._reads = Reads(self._learn)
        self._memory = MadeFrom()
        self._inside: Calls = NONE  # what the operation that runs now was given
        self._issued: set[int] = set()  # the calls that it issued
        self._is_unseen = False

    def __enter__(self) -> Any:
        self._reads.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._reads.__exit__(*error)

    def _learn(self, tensor: torch.Tensor) -> None:
        self._read |= self._memory.of(tensor)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What the library does meanwhile is no operation of the step: gloo copies results in `wait`."""
        self._is_unseen = True
        try:
            yield
        finally:
            self._is_unseen = False

    def call(self, index: int, inputs: Any, outputs: Any) -> list[int]:
        """Note call `index`, and return the calls of this step that its inputs were made from."""
        sources = self._inside.union(self._read, *map(self._memory.of, tensors(inputs)))
        self._issued.add(index)
        for tensor in tensors(outputs):
            self._memory.write(tensor, frozenset({index}))
        return sorted(sources)

    def __torch_dispatch__(
        self, operation: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and hand on what its results were made from."""
        kwargs = kwargs or {}
        if (
            self._is_unseen
            or operation.namespace == "c10d"
            or any(issubclass(kind, FakeTensor) for kind in types)
        ):
            return operation(
                *args, **kwargs
            )  # by the library, or without data: DTensor asks for a result's shape
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # a subclass, as DTensor, calls operations on plain tensors: these come back here
        written = list(_written(operation, args, kwargs))
        lost = {id(tensor) for tensor in written if _overwrites(operation)}
        given = [leaf for leaf in _leaves((args, kwargs)) if id(leaf) not in lost]
        outer, self._inside, self._issued = (
            (self._inside, self._issued),
            NONE.union(*map(self._memory.of, given)),
            set(),
        )
        try:
            result = operation(*args, **kwargs)
            is_call = (
                self._issued and operation.namespace == "_c10d_functional"
            )  # it gives what the call gave
            made_from = self._issued if is_call else self._inside | self._issued
        finally:
            self._inside, self._issued = outer
        known = {_place(leaf)[0] for leaf in _leaves((args, kwargs))}
        fresh = (
            leaf for leaf in _leaves(result) if _place(leaf)[0] not in known
        )  # a view is in memory that is known
        for tensor in (*fresh, *written):
            self._memory.write(tensor, frozenset(made_from))
        return result


def _leaves(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _place(tensor: torch.Tensor) -> tuple[int, int, int, bool]:
    """Return (storage, first byte, byte after the last, whether bytes between are not the tensor's)."""
    size = tensor.element_size()
    span = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    begin, elements = tensor.storage_offset() * size, tensor.numel()
    return tensor.untyped_storage()._cdata, begin, begin + (span * size if elements else 0), span > elements


def _overwrites(operation: Any) -> bool:
    """Whether nothing of what it writes into remains."""
    return operation._schema.name in {"aten::copy_", "aten::zero_", "aten::fill_"} or any(
        argument.is_out for argument in operation._schema.arguments
    )


def _written(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[torch.Tensor]:
    """The arguments that an operation writes into, by its schema."""
    for position, argument in enumerate(operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from tensors(args[position] if position < len(args) else kwargs.get(argument.name))
