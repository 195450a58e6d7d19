"""One table, one machine: measurements of different fingerprints are never mixed."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from overlayccl_core.tables.rows import TableError


def one_fingerprint(frames: Mapping[str | Path, pl.DataFrame], measure_again: str) -> str | None:
    """The fingerprint that all rows of all `frames` (by path) share; None where no row has one.

    TableError when there are two: it names both, the files that hold them, and `measure_again`, the command
    that brings them to one machine.
    """
    holders: dict[str, str] = {}
    for path, frame in frames.items():
        for fingerprint in frame["fingerprint"].drop_nulls().unique().sort():
            holders.setdefault(fingerprint, str(path))
    if len(holders) > 1:
        held = "; ".join(f"{path}: {fingerprint}" for fingerprint, path in holders.items())
        raise TableError(
            f"measurements of different machines, libraries, ranks or environments are not mixed: {held}. "
            f"Measure again: {measure_again}"
        )
    return next(iter(holders), None)
