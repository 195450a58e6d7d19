"""The storage and the cost limit of a search's answers, independent of the way of asking."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from overlayccl_core.asking.conversation import LanguageModel
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.asking.record import Records, spent
from overlayccl_core.configuration import prices
from overlayccl_core.locks import ALONE, opened, taken

LOCK = ".asking.lock"  # in a tree: held while money is set aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The storage and the cost limit of a search's answers."""

    answers: Path  # their folder
    tree: Path  # the results tree; max_usd limits the total cost of its answers
    max_usd: float | None  # None: no ceiling
    root: Path = Path()  # the repository, with the prices of models

    def ledger(self, model: LanguageModel) -> Ledger:
        """Return the ledger of a desk."""
        return Ledger(
            model,
            Records(self.answers),
            prices.load(self.root),
            max_usd=self.max_usd,
            spent=lambda: spent(self.tree),
            clock=time.monotonic,
            now=lambda: datetime.now(UTC),
            alone=lambda: _alone(self.tree),
        )


@contextmanager
def _alone(tree: Path) -> Iterator[None]:
    """Keep others from setting aside money of the tree."""
    lock = opened(tree / LOCK)
    try:
        taken(lock, ALONE)
        yield
    finally:
        os.close(lock)
