"""Kinds of names in the configuration, and the entries of a Problem."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from overlayccl_core import loader
from overlayccl_core.configuration.fields import unique
from overlayccl_core.configuration.searches import MENDED, SearchRound

Named = TypeVar("Named", bound=Iterable[str])
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
SearchId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*(\+[a-z0-9_-]+)?(@[0-9]+)?$")]
Names = Annotated[tuple[Name, ...], AfterValidator(unique), Field(json_schema_extra={"uniqueItems": True})]
Entry = Annotated[Mapping[str, Any], Field(min_length=1)]
Entries = Annotated[tuple[Entry, ...], Field(min_length=1)]


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
