"""A process group between a script and its library: each collective of torch.distributed passes through `passage`.

Torch builds it as it builds its own: `seam.py` gives torch this class in place of `ProcessGroup`. So it holds the
library's backends, and whatever has no method here goes to them as in torch.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch.distributed as dist

from .calls import METHODS

Passage = Callable[["Group", str, tuple[Any, ...], dict[str, Any]], Any]
"""Makes one call of a group: the name of its method, its arguments. Returns the call's Work.

It may have methods `groups_wait`, called before a group is made, for which ranks wait for each other;
`group_begins` and `group_ends`, called with each group before the library connects it, and before it is destroyed.
"""


def plain(group: "Group", method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call as the script wrote it."""
    return getattr(group.library, method)(*args, **kwargs)


class Group(dist.ProcessGroup):
    """A process group whose collectives pass through `passage`, and with the library's backends below.

    Args:
        store: The group's store.
        rank: This process's rank in the group.
        size: How many ranks the group has.

    Attributes:
        kept: What the passage keeps of the group.
    """

    passage: Passage = staticmethod(plain)
    made: ClassVar[list[list[int]]] = []
    """Ranks of each group that the script made, in its order, also of those without this process."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        super().__init__(
            rank, size
        )  # torch lets a class override calls only where it is built without the store
        self._store = store
        self._library: dist.ProcessGroup | None = None
        self.kept: Any = None
        getattr(self.passage, "group_begins", nothing)(self)

    def shutdown(self) -> None:
        """End the group, as torch does when it is destroyed."""
        getattr(self.passage, "group_ends", nothing)(self)
        super().shutdown()

    def get_group_store(self) -> dist.Store:
        """Return the group's store, as torch's own group does."""
        return self._store

    @property
    def library(self) -> dist.ProcessGroup:
        """The same group without us: torch's own class with the same backends."""
        if self._library is None:
            library = dist.ProcessGroup(self._store, self.rank(), self.size())
            for device in self._device_types:
                backend = self._get_backend(device)
                kind = dist.Backend.backend_type_map.get(
                    backend.name().lower(), dist.ProcessGroup.BackendType.CUSTOM
                )
                library._register_backend(device, kind, backend)
            library._set_default_backend(kind)
            self._library = library
        return self._library


def nothing(*_: Any) -> None:
    """What a passage does that needs nothing."""


def _through(method: str) -> Callable[..., Any]:
    def call(self: Group, *args: Any, **kwargs: Any) -> Any:
        return self.passage(self, method, args, kwargs)

    call.__name__ = method
    return call


for _method in METHODS:
    if hasattr(dist.ProcessGroup, _method):
        setattr(Group, _method, _through(_method))
