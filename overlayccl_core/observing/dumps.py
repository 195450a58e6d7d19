"""Dumps of torch's flight recorder: the last calls of a rank, with sizes and lines, without times and flow."""

import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.observing.seen import SeenCall, SeenRank, SeenStep, dtype_of, kind_of, origin_of
from overlayccl_core.tables.captured import CaptureSource

Entry = Mapping[str, Any]
DEFAULT = "default_pg"
SCATTERS = "reduce_scatter"  # gloo makes it of an all_reduce, and says so; the frames tell what was called
STEPS = 5
ENOUGH = 0.75
"""A step is the shortest sequence that comes again over at least this part of what any sequence does.

Several steps together come again, too; one step alone may come less far back, over an odd step (an evaluation).
"""


class _Plain(pickle.Unpickler):
    """Reads plain values only: a pickle may run any code, where it is let."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, where a dump has plain values")


def unpickled(data: bytes, file: object) -> Any:
    """Return a dump out of its pickle, without running anything that is in it.

    Raises:
        ValueError: It is no pickle, or has more than plain values.
    """
    try:
        return _Plain(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{file}: no dump of a flight recorder ({error}); nothing of it was run") from None


def read_dumps(dumps: Mapping[Path, Mapping[str, Any]]) -> list[SeenRank]:
    """Return what dumps tell of their ranks; a dump does not name its rank, the end of its file's name does.

    Raises:
        ValueError: The ranks cannot be told.
    """
    by_rank = {_rank(file): dump for file, dump in dumps.items()}
    if len(by_rank) < len(dumps):
        raise ValueError(
            f"files of one rank: {', '.join(map(str, dumps))}: give each rank's dump once, named by rank"
        )
    groups = _groups(by_rank)
    world = max((len(ranks) for ranks in groups.values()), default=1)
    return [
        SeenRank(
            source=CaptureSource.FLIGHT_RECORDER,
            rank=rank,
            world_size=max(world, *(one + 1 for one in by_rank)),
            groups=groups,
            steps=_steps([call for entry in dump["entries"] if (call := _seen(entry, groups))]),
        )
        for rank, dump in sorted(by_rank.items())
    ]


def _rank(file: Path) -> int:
    digits = re.findall(r"\d+", file.stem)
    if not digits:
        raise ValueError(f"{file}: whose dump is it? Name it by its rank, such as trace-0.pkl")
    return int(digits[-1])


def _groups(by_rank: Mapping[int, Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return name -> ranks: as NCCL's dumps say, else the ranks that call in it."""
    groups: dict[str, list[int]] = {}
    for rank, dump in by_rank.items():
        for name in {str(one["process_group"][0]) for one in dump["entries"]}:
            groups.setdefault(name, []).append(rank)
    for dump in by_rank.values():
        told = (
            (name, json.loads(one.get("ranks") or "[]")) for name, one in dump.get("pg_config", {}).items()
        )
        groups |= {name: ranks for name, ranks in told if name and ranks}
    return {name: sorted(ranks) for name, ranks in groups.items()}


def _seen(entry: Entry, groups: Mapping[str, Sequence[int]]) -> SeenCall | None:
    library, _, name = entry["profiling_name"].rpartition(":")
    kind = kind_of(name)
    if kind is None:  # NCCL notes where several calls go out as one
        return None
    frames = entry.get("frames", ())
    group = str(entry["process_group"][0])
    inputs, outputs = entry["input_sizes"], entry["output_sizes"]
    if library == "gloo" and kind == "all_reduce" and any(one["name"].startswith(SCATTERS) for one in frames):
        kind, count = SCATTERS, len(groups[group])
        outputs = [[size[0] // count, *size[1:]] for size in inputs if size]
    elif kind == "send":
        outputs = []
    elif kind == "recv":
        inputs = []
    line, part = origin_of((one["filename"], one["line"]) for one in frames)
    dtypes = entry["input_dtypes"] or entry["output_dtypes"]
    peer = re.search(r"\d+ ?(?:->|<-) ?(\d+)", name)
    return SeenCall(
        kind=kind,
        dtype=dtype_of(dtypes[0]) if dtypes else "",
        inputs=inputs,
        outputs=outputs,
        group=group,
        line=line,
        part=part,
        issued=int(entry["time_created_ns"]) / 1e3,
        peer=int(peer[1]) if peer else None,
    )


def _steps(calls: Sequence[SeenCall]) -> list[SeenStep]:
    """Return the last steps, counted back from the end; all calls as one if no sequence comes again."""
    length, reach = repeated([(c.kind, c.dtype, c.inputs, c.group, c.line) for c in calls])
    if not length:
        return [SeenStep(begin=calls[0].issued, step_us=None, calls=calls)] if calls else []
    count = min(STEPS, reach // length)
    firsts = [len(calls) - (count - n) * length for n in range(count)]
    return [
        SeenStep(
            begin=calls[at].issued,
            step_us=calls[at + length].issued - calls[at].issued if at + length < len(calls) else None,
            calls=calls[at : at + length],
        )
        for at in firsts
    ]


def repeated(calls: Sequence[object]) -> tuple[int, int]:
    """Return the length of the sequence that comes again up to the end, and of all that it covers; else (0, 0)."""
    reaches: dict[int, int] = {}
    for length in range(1, len(calls) // 2 + 1):
        same = 0
        while same < len(calls) - length and calls[-1 - same] == calls[-1 - same - length]:
            same += 1
        if same >= length:
            reaches[length] = same + length
    farthest = max(reaches.values(), default=0)
    return next(((one, reach) for one, reach in reaches.items() if reach >= ENOUGH * farthest), (0, 0))
