"""The fields of a search with a language model.

The model is asked at one Case of a Problem, the one with the most calls to compose. Other Cases try its sketches
as they are, a linear backward their transposes. Then the rules polish all of them, if the search says so.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from overlayccl_core import loader
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.configuration.fields import Fields
from overlayccl_core.configuration.searches import RankedBy
from overlayccl_core.program.problem import Place
from overlayccl_core.search.desk import Desk
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.search.proposal import FailedSketch
from overlayccl_core.search.proposers import offline
from overlayccl_core.search.style import FOLDER, AskPurpose


def _known(name: str) -> str:
    loader.path(FOLDER, name)  # ValueError names the existing ones
    return name


class How(Fields):
    """Options for the calls of one purpose, in place of the search's."""

    model: str | None = Field(default=None, description="as its vendor names it")
    temperature: float | None = Field(default=None, ge=0, le=2, description="of sampling")
    max_tokens: int | None = Field(default=None, ge=256, description="of an answer, at most")


class Enumerate(Fields):
    """1 + sketches + refined x refinements calls, plus repairs."""

    sketches: int = Field(
        default=5, ge=1, le=50, description="K: ideas asked for in one call, each written out in one"
    )
    refined: int = Field(default=2, ge=0, description="how many of the best are refined in each round")
    refinements: int = Field(default=2, ge=0, description="R: rounds")


class React(Fields):
    """One conversation."""

    turns: int = Field(default=20, ge=1, description="calls of the model, at most")


class Islands(Fields):
    """islands x rounds calls, plus repairs."""

    islands: int = Field(default=5, ge=1, description="populations that do not see each other")
    rounds: int = Field(default=4, ge=1, description="in which each island makes a call")
    migration: int = Field(
        default=2, ge=1, description="after so many rounds each island gets its neighbour's best"
    )


class Search(offline.Search):
    """A search by a language model, then by the rules."""

    style: Annotated[str, AfterValidator(_known)] = Field(
        default="enumerate", description="how the model is asked: a file in overlayccl_core/search/styles"
    )
    enumerate: Enumerate = Field(default=Enumerate(), description="of the style of that name")
    react: React = Field(default=React(), description="of the style of that name")
    islands: Islands = Field(default=Islands(), description="of the style of that name")
    repairs: int = Field(default=2, ge=0, description="of one sketch, at most: it is told what was wrong")
    model: str = Field(default="", description="as its vendor names it; empty: whoever answers")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="of sampling; without: the model's own"
    )
    max_tokens: int = Field(default=16000, ge=256, description="of an answer, at most")
    phases: Mapping[AskPurpose, How] = Field(
        default={}, description="purpose of a call to what differs there: model, temperature, max_tokens"
    )
    show_scores: bool = Field(
        default=True, description="false: no price is told, and none orders what is refined"
    )
    polish: bool = Field(default=True, description="false: rules turn no knob of what was sketched")

    @model_validator(mode="after")
    def _shows_prices_alone(self) -> Self:
        if self.show_scores and self.ranked_by is not RankedBy.PRICE:
            raise ValueError(
                f"ranked_by: {self.ranked_by.value} gives no prices to show to a model: add show_scores: false"
            )
        return self

    def how(self, purpose: AskPurpose) -> dict[str, Any]:
        """Return model, temperature and longest answer for the calls of a purpose."""
        own = self.phases.get(purpose, How()).model_dump(exclude_none=True)
        return {"model": self.model, "temperature": self.temperature, "max_tokens": self.max_tokens} | own

    def desk(
        self,
        ledger: Ledger,
        facts: DeploymentFacts,
        leads: frozenset[Place],
        failed: tuple[FailedSketch, ...] | None = None,
    ) -> Desk:
        """Return the desk of a search of a Problem, with the fields of `Desk`."""
        return Desk(self, ledger, facts, leads, failed)
