"""Detection of secrets in files for an archive: values of this environment, and well-known forms."""

import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from overlayccl_core.archiving.packing import Content, Link

NAMED = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(PASS|PAT|AUTH|DSN)(_|$)|_PWD$"
    r"|CONNECTION_STRING|DATABASE_URL",
    re.IGNORECASE,
)  # names of variables with a secret
SHORTEST = 12  # characters: shorter values also occur by chance
WRAPPED = 3  # levels of quoting: JSON in a parameter's repr in JSON
WRITTEN: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: repr(f'"{text}')[2:-1],  # beside quotes of the other kind
    html.escape,
)  # ways to quote a text in another
FORMS = {
    "a key of Anthropic": rb"sk-ant-[A-Za-z0-9_-]{20,}",
    "a key of OpenAI": rb"(?<![A-Za-z0-9])sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{32,})",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a secret key of AWS": rb"(?i)aws_?secret_?(?:access_?)?key[\\\"']*\s*[:=]\s*[\\\"']*"
    rb"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
    "a key of Google": rb"\bAIza[A-Za-z0-9_-]{35}",
    "a token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})",
    "a token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Hugging Face": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of Slack": rb"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a bearer's token": rb"(?i)\bbearer\s+(?=[a-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}",
    "a signed token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "a password in an address": rb"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:[^\s/:@\"']{6,}@",
}
_FORMS = {what: re.compile(form) for what, form in FORMS.items()}


def refuse_leaks(content: Content, environment: Mapping[str, str] = os.environ) -> None:
    """Raise ValueError if a file holds a secret. It names the file and the kind of secret, never the secret."""
    values = {
        name: _as_written(value.strip())
        for name, value in environment.items()
        if NAMED.search(name) and len(value.strip()) >= SHORTEST and not os.path.exists(value)
    }

    def found_in(data: bytes) -> str | None:
        own = (f"the value of {of}" for of, ways in values.items() if any(way in data for way in ways))
        return next(own, None) or next((form for form, known in _FORMS.items() if known.search(data)), None)

    for name, what in sorted(content.items()):
        in_name = found_in(name.encode())
        where = "the name of a file" if in_name else name
        if found := in_name or next(filter(None, map(found_in, _texts(what))), None):
            raise ValueError(
                f"{where} holds {found}: nothing is archived that has a secret in it. Find out how it "
                "came there, change the secret, and make the file again"
            )


def _as_written(value: str) -> frozenset[bytes]:
    """Return a value's bytes, alone and as other texts escape its quotes, line ends and letters."""
    ways = {value}
    for _ in range(WRAPPED):
        ways |= {write(way) for way in ways for write in WRITTEN}
    return frozenset(way.encode(errors="surrogateescape") for way in ways)


def _texts(what: Path | bytes | Link) -> Iterator[bytes]:
    """Yield a file's bytes; of a table, since its bytes are compressed, its texts and metadata."""
    if isinstance(what, Link):
        yield what.target.encode()
    elif isinstance(what, bytes) or what.suffix != ".parquet":
        yield what if isinstance(what, bytes) else what.read_bytes()
    else:
        table = parquet.read_table(what)
        yield from _of_fields([table.schema.metadata, parquet.read_metadata(what).metadata, *table.schema])
        for column in table.columns:
            if not pa.types.is_primitive(column.type):
                yield b"\n".join(_of_value(column.to_pylist()))


def _of_fields(told: Iterable[Any]) -> Iterator[bytes]:
    """Yield names and metadata of fields, nested ones included; a table's own metadata is a plain mapping."""
    for one in told:
        if isinstance(one, pa.Field):
            yield one.name.encode()
            yield from _of_fields([one.metadata, *(one.type.field(k) for k in range(one.type.num_fields))])
        elif one is not None:
            yield b"\n".join(_of_value(one))


def _of_value(value: Any) -> Iterator[bytes]:
    """Yield the texts of a value, at any depth."""
    if isinstance(value, str | bytes):
        yield value.encode() if isinstance(value, str) else value
    elif isinstance(value, Mapping):
        yield from _of_value([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _of_value(part)
