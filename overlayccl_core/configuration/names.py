"""Kinds of names in the configuration, and the entries of a Problem."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Fields, unique
from overlayccl_core.configuration.searches import MENDED, SearchRound
from overlayccl_core.program.kinds import DType

Named = TypeVar("Named", bound=Iterable[str])
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
SearchId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*(\+[a-z0-9_-]+)?(@[0-9]+)?$")]
Names = Annotated[tuple[Name, ...], AfterValidator(unique), Field(json_schema_extra={"uniqueItems": True})]
Entry = Annotated[Mapping[str, Any], Field(min_length=1)]
Entries = Annotated[tuple[Entry, ...], Field(min_length=1)]


class Placed(Fields):
    """Fields common to the entries of all Problems: ranks of the Case, and its data."""

    ranks: int | None = Field(
        default=None,
        ge=2,
        description="N of the Problem, which must divide the world size; `node`: the ranks of a node, or all if a "
        "node has one (default: all)",
    )
    strided: bool = Field(default=False, description="true if its groups take every so-many-th rank")
    dtype: DType = Field(default=DType.FLOAT32, description="of the elements (default: float32)")
    example: str | None = Field(
        default=None,
        description="one of the Problem's own examples in place of its fields, sized for N: `train` is as large as "
        "in a real training",
    )


def first_rounds(names: Named) -> Named:
    """Validate names of searches: those of second rounds are not asked for."""
    for name in names:
        if SearchRound.of(name).mends:
            raise ValueError(
                f"{name}: names that end in {MENDED} are those of second rounds: give it another name"
            )
    return names


def known_problems(names: Named) -> Named:
    """Validate names of Problems: Cases of a misspelt one would silently be left out."""
    for name in names:
        loader.path("problems", name)  # a ValueError lists the known ones
    return names


def known_problem(name: str) -> str:
    """Validate the name of a Problem."""
    known_problems((name,))
    return name


def single_calls(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Validate entries of the Problem `captured` that have one call each."""
    of_problem = loader.load("problems", "captured").Entry
    for number, entry in enumerate(entries, 1):
        try:
            own = {name: value for name, value in entry.items() if name not in Placed.model_fields}
            if len(calls := of_problem.from_data(own).calls) > 1:
                raise ValueError(f"calls: must be one (got {len(calls)}): make an entry of each")
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from None
    return entries


SingleCalls = Annotated[Entries, AfterValidator(single_calls)]
