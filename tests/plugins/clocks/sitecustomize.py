"""A host whose clock drifts, for tests: Python imports this first where the folder is in PYTHONPATH.

OVERLAYCCL_TESTS_CLOCK: `since rate`: from CLOCK_MONOTONIC `since` (ns) on, time.monotonic gains `rate` seconds a
second here. Linux has namespaces whose CLOCK_MONOTONIC stands elsewhere, and none where it drifts.
"""

import os
import time

NAMESPACE = "/proc/self/ns/time"

if "OVERLAYCCL_TESTS_CLOCK" in os.environ:
    since, rate = (float(word) for word in os.environ["OVERLAYCCL_TESTS_CLOCK"].split())
    monotonic_ns, readlink = time.monotonic_ns, os.readlink

    def _drifting_ns() -> int:
        now = monotonic_ns()
        return now + round((now - since) * rate)

    def _readlink(path: object, **more: object) -> object:
        """Its clock is none of this host's."""
        return "time:[drifting]" if str(path) == NAMESPACE else readlink(path, **more)  # type: ignore[arg-type,call-overload]

    time.monotonic_ns = _drifting_ns
    time.monotonic = lambda: _drifting_ns() / 1e9
    os.readlink = _readlink  # type: ignore[assignment]
