"""Where the answers to a search are kept, and what they may cost; it knows nothing of how they are asked for."""

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
from overlayccl_core.program.problem import Direction

LOCK = ".asking.lock"  # in a tree: whoever sets money aside holds it
Place = tuple[str, Direction]  # id of a Case, and direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Where the answers of a search are kept, and what they may cost.

    answers: the folder. tree: of results, whose answers may cost max_usd together; None: no ceiling. root: of the
    repository, with the prices of models.
    """

    answers: Path
    tree: Path
    max_usd: float | None
    root: Path = Path()

    def ledger(self, model: LanguageModel) -> Ledger:
        """What a desk asks through."""
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
    """Nobody else sets money of the tree aside meanwhile."""
    lock = opened(tree / LOCK)
    try:
        taken(lock, ALONE)
        yield
    finally:
        os.close(lock)
