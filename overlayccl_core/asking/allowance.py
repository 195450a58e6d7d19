"""The storage and the cost limit of answers in a results tree."""

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
class Allowance:
    """The folder of some answers, and the limit on the cost of all in their tree."""

    answers: Path  # their folder
    tree: Path  # the results tree; max_usd limits the total cost of its answers
    max_usd: float | None  # None: no ceiling
    root: Path = Path()  # the repository, with the prices of models

    def ledger(self, model: LanguageModel) -> Ledger:
        """Return the ledger of questions to a model."""
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
