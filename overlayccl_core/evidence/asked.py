"""Rows of the table `calls`, from the calls in a ledger."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from overlayccl_core.asking.ledger import Call

Row = dict[str, Any]
TOKENS = ("input", "output", "cache_read", "cache_write")


def call_rows(calls: Iterable[Call]) -> Iterator[Row]:
    """Yield a row of `calls` for every ask, without Case, direction and search."""
    for number, call in enumerate(calls):
        fields = asdict(call)
        usage = fields.pop("usage") or dict.fromkeys(TOKENS)
        yield {"number": number} | fields | {f"{kind}_tokens": usage[kind] for kind in TOKENS}
