"""A deployed module's own data. A printed module has its values in place of these empty ones."""

from __future__ import annotations

from overlayccl_core.emit.runtime.entry import Entry

PROBLEM = ""
PROVEN: dict[str, str] = {}  # library and versions of proof and measurements
DIGEST = ""  # of all Programs in the module
ENTRIES: dict[str, Entry] = {}  # the Cases, by id
