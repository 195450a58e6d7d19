"""A search: a file in config/searches, typed. It says who proposes, and when enough was tried."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Fields, read

FOLDER = Path("config/searches")


def _known(proposer: str) -> str:
    loader.path("search/proposers", proposer)  # ValueError naming those there are
    return proposer


class Proxy(Fields):
    """From so many nodes of the developer's Program, or ranks, on, a smaller Case is searched first."""

    nodes: int = Field(ge=1, description="nodes of the developer's Program from which on a proxy is searched")
    ranks: int = Field(ge=1, description="ranks from which on a proxy is searched")


class Search(Fields):
    """How one search goes; counts are of a Case and direction. rounds, programs and seconds are guards."""

    name: str
    proposer: Annotated[str, AfterValidator(_known)] = Field(description="who proposes Programs")
    elites_a_round: int = Field(
        ge=1, description="how many new elites are expanded before prices are looked at again"
    )
    rounds: int = Field(ge=1, description="cuts a search that does not end by itself")
    programs: int = Field(ge=1, description="cuts a search that has tried so many Programs")
    seconds: float = Field(gt=0, description="cuts a search that takes so long")
    random: int = Field(ge=0, description="Programs besides the elites that are drawn and proven")
    seed: int = Field(ge=0, description="seed of the draw of random Programs")
    lossy: bool = Field(description="true or false: may rules invent sums and wires in fewer bits")
    proxy: Proxy = Field(description="from which size of a Case on a smaller one is searched first")


def load(name: str, folder: Path = FOLDER) -> Search:
    """The search of that name. ValueError: file, field and mend."""
    return read("search", folder / f"{name}.yaml", Search, name=name)
