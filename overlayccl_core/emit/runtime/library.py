"""The library's calls as one connected Case makes them: counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlayccl_core.emit.runtime.given import CALLS


class Library:
    """The library's calls, each counted by its name. permutes: the process group of permutes, or None: all."""

    def __init__(self, permutes: Any) -> None:
        self.calls: dict[str, int] = {}
        self._permutes = permutes

    def counted(self, name: str) -> Callable[..., Any]:
        """The call of that name."""
        call = CALLS[name]
        more = (self._permutes,) if name == "collective_permute" else ()

        def counted_call(*arguments: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            return call(*arguments, *more)

        return counted_call
