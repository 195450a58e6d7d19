"""One table, one machine: a check against mixed fingerprints."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from overlayccl_core.tables.rows import TableError


def one_fingerprint(frames: Mapping[str | Path, pl.DataFrame], measure_again: str) -> str | None:
    """Return the fingerprint common to all rows of all `frames` (by path); None if no row has one.

    Raises:
        TableError: There are two. It names both, their files, and `measure_again`, the command to measure all on
            one machine.
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
