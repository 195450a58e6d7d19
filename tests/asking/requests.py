"""Requests and answers for tests, and a model that says what it is told to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from overlayccl_core.asking.conversation import Answer, NoAnswer, Request, Usage, User
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.asking.record import FOLDER, Records, spent
from overlayccl_core.configuration.prices import Prices

DAY = datetime(2026, 10, 24, 12, 0, tzinfo=UTC)
PRICES = Prices.from_data(
    {
        "models": [
            {
                "model": "dear",
                "input": 100.0,
                "output": 500.0,
                "cache_read": 10.0,
                "cache_write": 125.0,
                "date": "2026-10-24",
                "source": "https://example.org",
            }
        ]
    }
)


def request(
    text: str = "Write one.", *, model: str = "dear", sample: int = 0, max_tokens: int = 100
) -> Request:
    return Request(
        system="You write strategies.",
        messages=(User(text=text),),
        model=model,
        sample=sample,
        max_tokens=max_tokens,
    )


@dataclass
class Told:
    """A LanguageModel that says one thing after another, the last again and again."""

    said: Sequence[Answer | NoAnswer]
    recorded: bool = False
    asked: list[Request] = field(default_factory=list)

    def answer(self, request: Request, *, purpose: str) -> Answer:
        self.asked.append(request)
        said = self.said[min(len(self.asked), len(self.said)) - 1]
        if isinstance(said, NoAnswer):
            raise said
        return said


YES = Answer(text="yes", usage=Usage(input=20, output=10), model="dear")


def ledger(model: object, tree: Path, *, max_usd: float | None = None, attempts: int = 2) -> Ledger:
    """A ledger of the search `a` in a results tree, whose calls each take a second."""
    seconds = count()
    return Ledger(
        model,  # type: ignore[arg-type]
        Records(tree / "a" / FOLDER),
        PRICES,
        max_usd=max_usd,
        spent=lambda: spent(tree),
        clock=lambda: float(next(seconds)),
        now=lambda: DAY,
        attempts=attempts,
    )
