"""Searches that ask what a script answers, over the tables of a small flow."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from overlayccl_core.asking.conversation import Answer, NoAnswer, ReplyOutcome, Request, User
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from tests.known_cases import case
from tests.stages.flow import ROOT

TABLES = (SKETCHES, CANDIDATES, SEARCH_ENDS, CALLS)
DOUBLING = (ROOT / "examples/sketches/grad_ar/recursive_doubling.py").read_text()
NAME = "recursive_doubling"
WRONG = DOUBLING.replace("scale(total, 1, n)", "scale(total, 2, n)")
OTHER = DOUBLING.replace("for k in range(n.bit_length() - 1)", "for k in reversed(range(n.bit_length() - 1))")


def sketch(source: str, rationale: str = "said") -> str:
    return json.dumps({"function": NAME, "source": source, "rationale": rationale})


def ideas(*names: str) -> str:
    return json.dumps(
        {"ideas": [{"name": n, "family": f"family of {n}", "idea": f"idea of {n}"} for n in names]}
    )


@dataclass
class Script:
    """Answers by purpose, the next one each time; what it has none for it cannot answer."""

    answers: Mapping[str, list[str | Answer | NoAnswer]]
    recorded: bool = False
    asked: list[tuple[str, Request]] = field(default_factory=list)

    def answer(self, request: Request, *, purpose: str) -> Answer:
        self.asked.append((purpose, request))
        left = self.answers.get(purpose, [])
        said = left.pop(0) if left else NoAnswer("nothing more is written", outcome=ReplyOutcome.FAILED)
        if isinstance(said, NoAnswer):
            raise said
        return Answer(text=said) if isinstance(said, str) else said

    def said(self, number: int) -> str:
        message = self.asked[number][1].messages[-1]
        assert isinstance(message, User)
        return message.text


@dataclass
class Ran:
    tables: dict[str, pl.DataFrame]
    folder: Path

    def sketched(self, case_: str | None = None) -> pl.DataFrame:
        mine = self.tables["sketches"].filter(pl.col("origin") == "sketch")
        return mine if case_ is None else mine.filter(pl.col("case") == case_)


SMALLER, LARGER = {"sizes": [7, 64]}, {"sizes": [7, 64, 1, 33]}
GRADIENTS = (case("grad_ar", SMALLER), case("grad_ar", LARGER))
