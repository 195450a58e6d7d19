"""A search: a file in config/searches, typed. It says who proposes, and when enough was tried."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from overlayccl_core.configuration import named_files

FOLDER = Path("config/searches")


class Proposer(StrEnum):
    """Who proposes Programs."""

    OFFLINE = "offline"  # the rewrite rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """From so many nodes of the developer's Program, or ranks, on, a smaller Case is searched first."""

    nodes: int
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How one search goes; counts are of a Case and direction.

    elites_a_round: how many new elites are expanded before prices are looked at again. rounds, programs, seconds:
    guards that cut a search that does not end by itself. random: how many Programs besides the elites are
    proven, drawn with `seed`. lossy: whether rules may invent sums and wires in fewer bits.
    """

    name: str
    proposer: Proposer
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
    data = named_files.read("search", folder / f"{name}.yaml", _SCHEMA)
    return _typed({"name": name, **data})


def _typed(data: Mapping[str, Any]) -> Search:
    return Search(**{**data, "proposer": Proposer(data["proposer"]), "proxy": Proxy(**data["proxy"])})


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
        "proposer": {"enum": [p.value for p in Proposer]},
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
