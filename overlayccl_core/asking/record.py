"""One call as one JSON file: the request, the answer's source and date, and the cost.

`<digest>.json` holds an answer; its name is the digest of the request. `<digest>.asked-<8 digits>.json` is a call
without an answer. It is written before sending, with the highest possible cost, so a killed run cannot spend
unseen. The answer then replaces it; if none comes, it keeps the reason and the cost.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from overlayccl_core.asking.conversation import Answer, MadeBy, ReplyOutcome, Stop, Usage, digests
from overlayccl_core.tables.atomic import write_bytes

FORMAT = "overlayccl call 1"
FOLDER = "answers"  # of records, anywhere in a results tree


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call.

    Attributes:
        made_by, answer: None without an answer.
        model: The one that answered, else the requested one; empty if unknown.
        date: UTC, ISO 8601.
        usd: The highest possible cost if usage is unknown; None if that is unknown, too.
        seconds: None if unknown.
        message: The reason for a missing answer.
    """

    format: str = FORMAT
    digest: str
    prompt_digest: str
    made_by: MadeBy | None
    model: str
    date: str
    purpose: str
    style: str
    request: Mapping[str, Any]
    outcome: Stop | ReplyOutcome
    answer: Answer | None
    usage: Usage | None
    usd: float | None
    seconds: float | None
    message: str = ""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"its format must be {FORMAT!r} (got {self.format!r})")
        if (self.prompt_digest, self.digest) != digests(self.request):
            raise ValueError("its digests are not those of its request: somebody changed one of them")
        if (self.answer is None) != isinstance(self.outcome, ReplyOutcome):
            raise ValueError(f"outcome {self.outcome} and the answer do not go together")
        if self.usd is not None and not 0 <= self.usd < inf:
            raise ValueError(f"usd must be a number from 0 on (got {self.usd})")


_FORM = TypeAdapter(CallRecord)


def read(path: Path) -> CallRecord:
    """Read a record. If it is damaged, raise ValueError with file, fault and fix."""
    try:
        return _FORM.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}" if where else first["msg"]
        raise ValueError(
            f"{path} is no record of a call ({said}): put back the file as it was written, or delete it "
            "(what it says was spent is then forgotten)"
        ) from None


class Records:
    """The records in one folder; it need not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, digest: str) -> CallRecord | None:
        """Return the record with the answer to the request of this digest, if any. ValueError: a damaged file."""
        path = self._path(digest)
        if not path.is_file():
            return None
        record = read(path)
        if record.digest != digest:
            raise ValueError(
                f"{path} is the record of another request, {record.digest[:12]}: name it by that"
            )
        return record

    def answered(self) -> Iterator[CallRecord]:
        """Yield all records with an answer, by file name: those in folders `answers`, else the folder's own.

        Raises:
            ValueError: A file is damaged.
        """
        for folder in sorted(self.folder.glob(f"**/{FOLDER}")) or [self.folder]:
            yield from (record for record in _records(folder, "*.json") if record.answer is not None)

    def keep(self, record: CallRecord) -> None:
        """Write a record with an answer."""
        self._write(self._path(record.digest), record)

    def reserve(self, record: CallRecord) -> Path:
        """Write the record of a call before it is sent; return its file, unique to the call."""
        path = self.folder / f"{record.digest}.asked-{secrets.token_hex(4)}.json"
        self._write(path, record)
        return path

    def settle(self, reserved: Path, record: CallRecord) -> None:
        """Replace a reservation by the answer or the call's cost; delete it if there is neither."""
        if record.answer is None and record.usd:
            self._write(reserved, record)
            return
        if record.answer is not None:
            self.keep(record)
        reserved.unlink()

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"

    def _write(self, path: Path, record: CallRecord) -> None:
        text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
        write_bytes(path, text.encode())


def spent(tree: Path) -> float:
    """Return the US dollars of all calls recorded below a folder, reserved ones at their highest possible cost.

    Raises:
        ValueError: A file is damaged.
    """
    return sum(record.usd or 0.0 for record in _records(tree, f"**/{FOLDER}/*.json"))


def _records(folder: Path, pattern: str) -> Iterator[CallRecord]:
    for path in sorted(folder.glob(pattern)):
        try:
            yield read(path)
        except FileNotFoundError:  # its answer came in the meantime, under another name
            continue
