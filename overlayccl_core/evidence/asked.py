"""Rows of the table `calls`, from the calls in a ledger."""

from collections.abc import Iterable, Iterator
from typing import Any

from overlayccl_core.asking.ledger import LedgerEntry

Row = dict[str, Any]
FIELDS = ("purpose", "style", "made_by", "model", "digest", "outcome", "usd", "seconds", "message")
TOKENS = ("input", "output", "cache_read", "cache_write")


def call_rows(calls: Iterable[LedgerEntry]) -> Iterator[Row]:
    """Yield a row of `calls` for every ask, without Case, direction and search."""
    for number, call in enumerate(calls):
        fields = {name: getattr(call.record, name) for name in FIELDS}
        tokens = {f"{kind}_tokens": getattr(call.record.usage, kind, None) for kind in TOKENS}
        yield {"number": number, "recorded": call.recorded} | fields | tokens
