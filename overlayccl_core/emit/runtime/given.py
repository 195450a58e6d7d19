"""What a deployed module says of itself. A printed module has its own values in place of these of an empty one."""

from __future__ import annotations

from overlayccl_core.emit.runtime.entry import Entry

PROBLEM = ""
PROVEN: dict[str, str] = {}  # the library and the versions that proof and measurements were made with
DIGEST = ""  # of all Programs in the module
ENTRIES: dict[str, Entry] = {}  # the Cases, by id
