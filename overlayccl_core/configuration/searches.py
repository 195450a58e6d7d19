"""A search: a file in config/searches, typed. It names the proposer and the limits.

`Search` has the fields common to all searches. A file search/proposers/<proposer>.py may derive a class `Search`
with fields of its own. `NAME+VARIANT` is the search of the file NAME with the fields of variants/VARIANT.yaml in
place of its own, `NAME@SEED` the search with another seed.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import Field, create_model

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Fields, chosen, parsed, read
from overlayccl_core.configuration.fields import schema as schema_of

FOLDER = Path("config/searches")
PROPOSERS = "search/proposers"
VARIANTS = "variants"  # folder beside the files of searches
WITH = "+"  # between a file's name and its variant
AT = "@"  # between these and a seed
MENDED = "-repair1"  # in the name of a second round, which is a folder and a value of the column `search`


@dataclass(frozen=True, slots=True)
class SearchRound:
    """A round of a search. mends: the second, which asks again for what failed on the ranks."""

    search: str
    mends: bool = False

    @classmethod
    def of(cls, name: str) -> "SearchRound":
        """Return the round of that name."""
        return cls(name.removesuffix(MENDED), name.endswith(MENDED))

    @property
    def name(self) -> str:
        """Its folder, and its value in the column `search`."""
        return f"{self.search}{MENDED}" if self.mends else self.search


class Begin(StrEnum):
    """Strategies at the start of a search."""

    LIBRARY = "library"
    DEVELOPER = "developer"


class RankedBy(StrEnum):
    """The order of Programs in a search. `calls` leaves the cost model out of its loop."""

    PRICE = "price"
    CALLS = "calls"


class Proxy(Fields):
    """Case sizes from which a smaller Case is searched first: nodes of the developer's Program, or ranks."""

    nodes: int = Field(ge=1, description="nodes of the developer's Program from which on a proxy is searched")
    ranks: int = Field(ge=1, description="ranks from which on a proxy is searched")


class Search(Fields):
    """How one search goes. Counts are of a Case and direction; rounds, programs and seconds are guards."""

    name: str
    proposer: str = Field(description="who proposes Programs: a file in overlayccl_core/search/proposers")
    rounds: int = Field(ge=1, description="cuts a search that does not end by itself")
    programs: int = Field(ge=1, description="cuts a search that has tried so many Programs")
    seconds: float = Field(gt=0, description="cuts a search that takes so long")
    families: int = Field(
        default=24,
        ge=1,
        description="of how many of the cheapest families a Program is proven, and of a proxy's at least replayed",
    )
    random: int = Field(default=4, ge=0, description="Programs besides the elites that are drawn and proven")
    seed: int = Field(ge=0, description="of the draw of random Programs, and of all that the proposer draws")
    begin: Begin = Field(
        default=Begin.LIBRARY,
        description="what it begins with: the whole library of the Problem, or developer's strategy alone",
    )
    ranked_by: RankedBy = Field(
        default=RankedBy.PRICE,
        description="what it takes for the price while it goes on: the cost model's price, or the number of calls; "
        "in the tables all Programs have their prices",
    )
    lossy: bool = Field(default=False, description="may rules invent sums and wires in fewer bits")
    proxy: Proxy = Field(
        default=Proxy(nodes=500, ranks=64),
        description="from which size of a Case on a smaller one is searched first",
    )

    @property
    def file(self) -> Path:
        """Path of its configuration file."""
        return FOLDER / f"{file_and_seed(self.name)[0].partition(WITH)[0]}.yaml"

    @classmethod
    def class_of(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the class of the data's proposer."""
        return cast(type[Self], chosen(Search, data, "proposer", _class_of)) if cls is Search else cls


def _class_of(proposer: str) -> type[Search]:
    """Return the class of a proposer's searches; a ValueError lists the known proposers."""
    return cast(type[Search], getattr(loader.load(PROPOSERS, proposer), "Search", Search))


def schema() -> dict[str, Any]:
    """Return the JSON schema of a file in config/searches, for any known proposer."""

    def named(proposer: str) -> type[Search]:
        only: Any = Literal[proposer]
        field = copy(Search.model_fields["proposer"])
        return create_model(proposer, __base__=_class_of(proposer), proposer=(only, field))

    return schema_of(*map(named, loader.names(PROPOSERS)))


def file_and_seed(name: str) -> tuple[str, int | None]:
    """Split `random@3` into (`random`, 3); without @ the seed is None. A second round has those of its search.

    A variant stays with its file. Raises ValueError for a bad seed.
    """
    file, at, seed = SearchRound.of(name).search.partition(AT)
    if at and not (seed.isascii() and seed.isdigit()):
        raise ValueError(
            f"search {name!r}: after {AT} stands a seed, a whole number from 0 on (got {seed!r})"
        )
    return file, int(seed) if at else None


def at_seeds(names: Iterable[str], seeds: int) -> tuple[str, ...]:
    """Return each search at the seeds from 0 on; one with a seed in its name at that seed alone."""
    return tuple(
        one
        for name in names
        for one in ([name] if AT in name else [f"{name}{AT}{seed}" for seed in range(seeds)])
    )


def load(name: str, folder: Path = FOLDER) -> Search:
    """Return the search `FILE`, `FILE+VARIANT`, or either with `@SEED`. ValueError: file, field and mend."""
    of, seed = file_and_seed(name)
    file, _, variant = of.partition(WITH)

    def data_of(path: Path) -> Any:
        return {**parsed(path), **_variant(variant, folder)} if variant else parsed(path)

    search = read("search", folder / f"{file}.yaml", Search, data_of=data_of, name=name)
    return search if seed is None else search.changed(seed=seed)


def _variant(name: str, folder: Path) -> Mapping[str, Any]:
    path = folder / VARIANTS / f"{name}.yaml"
    if not path.is_file():
        known = sorted(p.stem for p in path.parent.glob("*.yaml"))
        raise ValueError(
            f"no variant {name!r}: {path} does not exist; there are: {', '.join(known) or 'none'}"
        )
    fields = parsed(path)
    if not isinstance(fields, Mapping):
        raise ValueError(f"{path}: has no fields: give some of a search's, as in polish: false")
    return fields
