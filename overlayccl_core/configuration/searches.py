"""A search: a file in config/searches, typed. It says who proposes, and when enough was tried."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overlayccl_core import loader
from overlayccl_core.configuration import named_files

FOLDER = Path("config/searches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """From so many nodes of the developer's Program, or ranks, on, a smaller Case is searched first."""

    nodes: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How one search goes; counts are of a Case and direction.

    proposer: a plug-in's name. elites_a_round: how many new elites are expanded before prices are looked at
    again. rounds, programs, seconds: guards that cut a search that does not end by itself. random: how many
    Programs besides the elites are proven, drawn with `seed`. lossy: whether rules may invent sums and wires in
    fewer bits.
    """

    name: str
    proposer: str
    elites_a_round: int
    rounds: int
    programs: int
    seconds: float
    random: int
    seed: int
    lossy: bool
    proxy: Proxy

    def to_json(self) -> str:
        """One line with sorted keys: equal searches give equal text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Search":
        """The Search that `to_json` wrote."""
        return _typed(json.loads(text))


def load(name: str, folder: Path = FOLDER) -> Search:
    """The search of that name. ValueError: file, field and mend."""
    file = folder / f"{name}.yaml"
    data = named_files.read("search", file, _SCHEMA)
    try:
        loader.path("search/proposers", data["proposer"])
    except ValueError as error:
        raise ValueError(f"{file}: proposer: {error}") from None
    return _typed({"name": name, **data})


def _typed(data: Mapping[str, Any]) -> Search:
    return Search(**{**data, "proxy": Proxy(**data["proxy"])})


_COUNT = {"type": "integer", "minimum": 1}
_OR_NONE = {"type": "integer", "minimum": 0}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


_SCHEMA = _object(
    {
        "proposer": {"type": "string"},
        "elites_a_round": _COUNT,
        "rounds": _COUNT,
        "programs": _COUNT,
        "seconds": {"type": "number", "exclusiveMinimum": 0},
        "random": _OR_NONE,
        "seed": _OR_NONE,
        "lossy": {"type": "boolean"},
        "proxy": _object({"nodes": _COUNT, "ranks": _COUNT}),
    }
)
