"""A folder of proven ways, and which of a script's calls they are for.

`captured.py` is a deployed module. `ways.json` says which of its Cases makes which calls: rows
`{"key": [...], "case": id}` for one call, `{"bundle": [[...], ...], "case": id}` for calls one after another. A row
of one call with `"ways": [[way, family, parts], ...]` leaves open which of them: online.py finds out. One with
`"way": name` is made in that way, any other in the one that is called `chosen`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from .calls import METHODS, argument
from .descent import TunedArm
from .parts import MODULE, WAYS, Key, ways_digest

SINGLE = {
    *("allreduce", "_allgather_base", "all_gather_single", "_reduce_scatter_base", "reduce_scatter_single"),
    *("alltoall_base", "all_to_all_single"),
    *("allgather_into_tensor_coalesced", "all_gather_single_coalesced"),  # lists of one: DTensor's
    *("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced", "allreduce_coalesced"),
}
"""Methods whose sizes the library wants equal on all ranks of a group: without splits, those of all_to_all."""


CLASSES = ("exact", "reordered", "lossy")
"""Of numerics, the best first."""

Bundle = tuple[Key, ...]
"""Calls one after another."""


class ProvenWays:
    """What a folder has.

    Attributes:
        module: The deployed module.
        cases: A call -> the Case that makes it.
        bundles: Calls one after another -> the Case that makes them together.
        fixed: Case -> the way that makes it, if it is not called `chosen`.
        arms: Case -> its ways, if it is open which is the fastest; the first is the script's own call.
        numerics: Case -> class of its numerics: exact, reordered, lossy.
        digest: Of both files.
        library: That the ways were measured on, as torch names it; empty: any.

    Raises:
        ValueError: It is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        try:
            texts = [(folder / name).read_bytes() for name in (MODULE, WAYS)]
            rows = json.loads(texts[1])
            self.cases = {Key(*row["key"]): str(row["case"]) for row in rows if "key" in row}
            self.bundles: dict[Bundle, str] = {
                tuple(Key(*key) for key in row["bundle"]): str(row["case"]) for row in rows if "bundle" in row
            }
            self.fixed = {str(row["case"]): str(row["way"]) for row in rows if "way" in row}
            self.arms = {
                str(row["case"]): [TunedArm(*arm) for arm in row["ways"]] for row in rows if "ways" in row
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{folder} is no folder of proven ways, it needs {MODULE} and {WAYS}: {error!r}"
            ) from error
        self.module = _loaded(folder / MODULE)
        self.numerics = {case: self._numerics(case, entry) for case, entry in self.module.ENTRIES.items()}
        self.digest = ways_digest(texts)
        self._keys = {*self.cases, *(key for keys in self.bundles for key in keys)}
        self._sizes = {(key.elements, getattr(torch, key.dtype)) for key in self._keys}
        self.library = str(getattr(self.module, "PROVEN", {}).get("library", ""))
        self._elsewhere: dict[Key, set[int]] = {}  # a call without its tier -> the tiers in which it has ways
        for key in self._keys:
            self._elsewhere.setdefault(key._replace(hosts=0), set()).add(key.hosts)

    def _numerics(self, case: str, entry: Any) -> str:
        """Return the class of a Case's way; of several the worst."""
        ways = [arm.way for arm in self.arms.get(case, ())] or [self.fixed.get(case, "chosen")]
        return max((str(entry.ways[way].said["numerics"]["forward"]) for way in ways), key=CLASSES.index)

    def fit(self, ranks: int) -> bool:
        """Whether a group of a job with so many ranks can have a call of the folder."""
        return any(key.ranks <= ranks for key in self._keys)

    def key(
        self,
        ranks: Sequence[int],
        hosts: Callable[[], int],
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Key | None:
        """Return the key of a call of a group of these ranks; None if the folder does not have it.

        What the library would refuse has no key: the library says it in its own words.

        Args:
            hosts: Returns over how many hosts the group is spread; asked for if the folder has such a call.
        """
        found = ends(method, args)
        if found is None or (found[0].numel(), found[0].dtype) not in self._sizes:
            return None
        given, taken = found
        reduction = getattr(options(method, args, kwargs), "reduceOp", None)
        name = "" if reduction is None else getattr(reduction, "op", reduction).name.lower()
        dtype = str(given.dtype).removeprefix("torch.")
        key = Key(METHODS[method].kind, name, dtype, given.numel(), len(ranks), stride(ranks), 0)
        if key not in self._elsewhere or not _fits(key, given, taken):
            return None
        here = key._replace(hosts=hosts())
        if here in self._keys:
            return here
        there, self._elsewhere[key] = self._elsewhere[key], set()
        if there and dist.get_rank() == ranks[0]:
            warnings.warn(
                f"a group of {key.ranks} ranks is spread over {here.hosts} hosts, the ways of its {key.kind} were "
                f"measured on {', '.join(map(str, sorted(there)))}: the call stays as it is",
                stacklevel=2,
            )
        return None


def stride(ranks: Sequence[int]) -> int:
    """Return the distance between neighbours of a group; 0 if it is not the same everywhere."""
    distances = {after - before for before, after in pairwise(ranks)}
    return distances.pop() if len(distances) == 1 else 0


def ends(method: str, args: tuple[Any, ...]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the tensor that a call reads, and the one that it writes.

    None: there are several, or the library does not want their sizes equal on all ranks.
    """
    row = METHODS[method]
    if method not in SINGLE or (row.kind == "all_to_all" and any(args[2:4])):
        return None  # the latter: with splits
    given, taken = one_tensor(args, row.inputs), one_tensor(args, row.outputs)
    return None if given is None or taken is None else (given, taken)


def one_tensor(args: tuple[Any, ...], position: int | None) -> torch.Tensor | None:
    """Return the tensor at a position, or in a list of one there."""
    found = argument(args, position)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, torch.Tensor) else None


def options(method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the options of a call: reduction, root, whether the script waits at once."""
    return kwargs.get("opts", argument(args, METHODS[method].options))


def _fits(key: Key, given: torch.Tensor, taken: torch.Tensor) -> bool:
    results = {"all_gather": key.elements * key.ranks, "reduce_scatter": key.elements // key.ranks}
    return (
        taken.numel() == results.get(key.kind, key.elements)
        and given.dtype == taken.dtype
        and given.device == taken.device
        and given.layout is taken.layout is torch.strided
    )


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("overlayccl_captured", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
