"""Sanitize texts of others: no secrets, no invalid Unicode, no numbers outside JSON."""

import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

REMOVED = "[secret removed]"
DEEPEST = 50  # levels of JSON: a request's own schemas have fewer than ten
LONGEST = 300  # characters of others' text in a message
_SHORTEST = 8  # characters of a secret: shorter texts occur in any sentence
_SECRET = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$")


def secrets() -> tuple[str, ...]:
    """Return the secret values of variables like ANTHROPIC_API_KEY, the longest first."""
    named = {value.strip() for name, value in os.environ.items() if _SECRET.search(name.upper())}
    return tuple(sorted((value for value in named if len(value) >= _SHORTEST), key=len, reverse=True))


def cleaned(value: Any, hidden: Iterable[str], _depth: int = 0) -> Any:
    """Return the same text or JSON without `hidden`. ValueError: too deep, or a number outside JSON."""
    if _depth > DEEPEST:
        raise ValueError(f"JSON of more than {DEEPEST} levels")
    if isinstance(value, str):
        for secret in hidden:
            value = value.replace(secret, REMOVED)
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {cleaned(str(key), hidden): cleaned(item, hidden, _depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item, hidden, _depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value}, which is no number of JSON")
    return value


def one_line(value: object, hidden: Iterable[str]) -> str:
    """Return a text for a message: cleaned, in one line, cut if long."""
    text = " ".join(cleaned(str(value), hidden).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


_PLACES = (
    (re.compile(r"\bnode [\w.-]+: "), ""),
    (re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}/?"), "(a file)"),
    (re.compile(r"\[?\b\d{1,3}(?:\.\d{1,3}){3}\b\]?(?::\d+)?"), "(an address)"),
    (re.compile(r"\[[0-9a-fA-F:]*:[0-9a-fA-F:]*\](?::\d+)?"), "(an address)"),
)


def without_places(text: str) -> str:
    """Remove hosts, files and addresses from texts of ranks or libraries: these stay on this machine."""
    for place, instead in _PLACES:
        text = place.sub(instead, text)
    return text
