"""Secrets that got into what is to be archived: of this environment, and of forms that are well known."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from overlayccl_core.archiving.packing import Content, Link

NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL")  # what variables are called that hold one
SHORTEST = 12  # characters: what is shorter also stands somewhere by chance
FORMS = {
    "a key of Anthropic": rb"sk-ant-[A-Za-z0-9_-]{20,}",
    "a key of OpenAI": rb"sk-(?:proj-)?[A-Za-z0-9]{32,}",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})",
    "a token of Hugging Face": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of Slack": rb"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a private key": rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "a password in an address": rb"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']+:[^\s/:@\"']{6,}@",
}
_FORMS = {what: re.compile(form) for what, form in FORMS.items()}


def refuse_leaks(content: Content, environment: Mapping[str, str] = os.environ) -> None:
    """ValueError where a file holds a secret: which, and what kind of secret; never the secret."""
    values = {
        name: value.encode()
        for name, value in environment.items()
        if NAMED.search(name) and len(value) >= SHORTEST and not os.path.exists(value)
    }
    for name, what in sorted(content.items()):
        if isinstance(what, Link):
            continue
        for data in _texts(what):
            found = next((f"the value of {of}" for of, value in values.items() if value in data), None)
            found = found or next((form for form, known in _FORMS.items() if known.search(data)), None)
            if found:
                raise ValueError(
                    f"{name} holds {found}: nothing is archived that has a secret in it. Find out how it "
                    "came there, change the secret, and make the file again"
                )


def _texts(what: Path | bytes) -> Iterator[bytes]:
    """A file's bytes; of a table, whose bytes are compressed, its texts."""
    if isinstance(what, bytes) or what.suffix != ".parquet":
        yield what if isinstance(what, bytes) else what.read_bytes()
        return
    for column in parquet.read_table(what).columns:
        flat = column
        while pa.types.is_list(flat.type) or pa.types.is_large_list(flat.type):
            flat = pa.chunked_array([chunk.flatten() for chunk in flat.chunks], flat.type.value_type)
        if pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type):
            yield "\n".join(text for text in flat.to_pylist() if text is not None).encode()
