"""Files that people have of their steps, read as captured calls. What is in them tells what they are."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from overlayccl_core.observing.dumps import read_dumps, unpickled
from overlayccl_core.observing.seen import rows
from overlayccl_core.observing.traces import read_trace

GZIP, PICKLE = b"\x1f\x8b", b"\x80"


def read_files(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the rows of `captured_calls` out of traces of torch.profiler, or of dumps of the flight recorder.

    Args:
        files: One a rank, all of one kind; any of the ranks.

    Raises:
        ValueError: A file is neither, they are of both kinds, or two are of one rank.
    """
    contents = {file: _content(file) for file in files}
    traces = {file: one for file, one in contents.items() if "traceEvents" in one}
    if not traces:
        return list(rows(read_dumps(contents)))
    if len(traces) < len(contents):
        raise ValueError("traces of the profiler and dumps of the flight recorder: give files of one kind")
    ranks = sorted((read_trace(one, file) for file, one in traces.items()), key=lambda one: one.rank)
    if len({one.rank for one in ranks}) < len(ranks) or len({one.world_size for one in ranks}) > 1:
        raise ValueError(
            f"these are ranks {[one.rank for one in ranks]} of {sorted({one.world_size for one in ranks})}: give "
            "one trace a rank, of one job"
        )
    return list(rows(ranks))


def _content(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"{file}: there is no such file")
    data = file.read_bytes()
    if data.startswith(GZIP):
        data = gzip.decompress(data)
    try:
        content = unpickled(data, file) if data.startswith(PICKLE) else json.loads(data)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{file}: neither a trace (JSON) nor a dump of a flight recorder ({error})"
        ) from None
    if not isinstance(content, dict) or not {"traceEvents", "entries"} & set(content):
        raise ValueError(
            f"{file}: neither a trace of torch.profiler (traceEvents) nor a dump of a flight recorder (entries)"
        )
    return content
