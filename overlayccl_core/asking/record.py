"""One call as one JSON file: what was asked, who answered what and when, and what it cost.

`<digest>.json` has an answer and is found by the digest of its request. `<digest>.asked-<8 digits>.json` is of a
call without one: written with the most that it may cost before it is sent, so that a run that is killed cannot
spend unseen; it gives way to the answer, or says in the end why there is none and what that cost.
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
FOLDER = "answers"  # that records lie in, anywhere in a results tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A call. date: UTC, ISO 8601. usd, seconds: None is not known. message: why there is no answer.

    made_by, answer: None where there is no answer. model: that answered, else that was asked; empty: nobody says.
    usd: what the call may have cost at most, where nobody says what it used.
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


_FORM = TypeAdapter(Record)


def read(path: Path) -> Record:
    """The record in a file. ValueError: the file, what is wrong, the mend."""
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
    """The records in one folder, which need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, digest: str) -> Record | None:
        """The record with the answer to the request of that digest. ValueError: a damaged file."""
        path = self._path(digest)
        if not path.is_file():
            return None
        record = read(path)
        if record.digest != digest:
            raise ValueError(
                f"{path} is the record of another request, {record.digest[:12]}: name it by that"
            )
        return record

    def answered(self) -> Iterator[Record]:
        """All records with an answer, by the names of their files; of a tree with folders `answers`, those in them.

        ValueError: a damaged file.
        """
        for folder in sorted(self.folder.glob(f"**/{FOLDER}")) or [self.folder]:
            yield from (record for record in _records(folder, "*.json") if record.answer is not None)

    def keep(self, record: Record) -> None:
        """Write a record that has an answer."""
        self._write(self._path(record.digest), record)

    def reserve(self, record: Record) -> Path:
        """Write the record of a call that is about to be sent; the file, which is no other call's."""
        path = self.folder / f"{record.digest}.asked-{secrets.token_hex(4)}.json"
        self._write(path, record)
        return path

    def settle(self, reserved: Path, record: Record) -> None:
        """Put what came of a call in the place of what was reserved: its answer, or what it may have cost."""
        if record.answer is None and record.usd:
            self._write(reserved, record)
            return
        if record.answer is not None:
            self.keep(record)
        reserved.unlink()

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"

    def _write(self, path: Path, record: Record) -> None:
        text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
        write_bytes(path, text.encode())


def spent(tree: Path) -> float:
    """US dollars of all calls recorded below a folder, reserved ones at the most they may cost.

    ValueError: a damaged file.
    """
    return sum(record.usd or 0.0 for record in _records(tree, f"**/{FOLDER}/*.json"))


def _records(folder: Path, pattern: str) -> Iterator[Record]:
    for path in sorted(folder.glob(pattern)):
        try:
            yield read(path)
        except FileNotFoundError:  # its answer came in the meantime, under another name
            continue
