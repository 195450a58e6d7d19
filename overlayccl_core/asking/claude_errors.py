"""Classify failed tries at Claude: is the service busy, how much may have been spent, how is it fixed.

Messages quote the library and the service, in one line and without secrets. The errors themselves hold the
request's headers: they are read here and dropped.
"""

import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from overlayccl_core.asking.claude_form import usage_so_far
from overlayccl_core.asking.clean import one_line
from overlayccl_core.asking.conversation import NoAnswer, ReplyOutcome, Usage

NOTHING = Usage()
_BUSY = (408, 409, 429)  # and all from 500 on
_MENDS = {
    400: "the service does not take this request: see what it says",
    401: "the service does not take the key: set ANTHROPIC_API_KEY anew",
    402: "the account cannot pay: look at its billing",
    403: "the key may not do this: look at its rights",
    404: "there is no such model or place: look at `model` and ANTHROPIC_BASE_URL",
    413: "the request is too long for the service",
}
_REDIRECT = "no redirect is followed: ANTHROPIC_BASE_URL must name the service itself"
_FINAL = (401, 402, 403, 404)
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class UnusableStream(Exception):
    """A stream without an error and without an end."""


@dataclass(frozen=True, slots=True)
class FailedTry:
    """A try without an answer. busy: it was free, and a later one may succeed. wait_s: as the service asks."""

    error: NoAnswer
    busy: bool = False
    wait_s: float | None = None


def failure(error: Exception, message: Any, hidden: Iterable[str], *, sent: bool) -> FailedTry:
    """Classify an error.

    Args:
        message: The part of the answer received; None if none was.
        sent: Whether the request had begun to leave; before that it costs nothing.
    """
    import anthropic
    import httpx2

    hidden, usage = tuple(hidden), usage_so_far(message)
    if not sent:
        return _not_sent(error, hidden)
    if isinstance(error, anthropic.APIStatusError):
        if message is not None:
            return _lost(error, usage, hidden)
        return _of_status(error.status_code, error.response.headers, _said(error, hidden))
    if isinstance(error, anthropic.APIConnectionError):
        return _lost(error.__cause__ or error, usage, hidden)
    if isinstance(error, httpx2.TransportError | UnusableStream):
        return _lost(error, usage, hidden)
    said = _said(error, hidden)
    text = f"Claude's answer has not the form of one ({type(error).__name__} {said}): is ANTHROPIC_BASE_URL right"
    return FailedTry(NoAnswer(text, outcome=ReplyOutcome.MALFORMED, usage=usage, again=True))


def no_client(error: Exception, hidden: Iterable[str]) -> str:
    """Explain why nothing can be sent from here, and the fix."""
    said = one_line(f"{type(error).__name__}: {error}", hidden)
    variables = _CERTIFICATES if isinstance(error, OSError) else (*_PROXIES, "ANTHROPIC_BASE_URL")
    named = [name for name in variables if os.environ.get(name)]
    mend = f"set {' and '.join(named)} anew, or unset it" if named else "see what it says"
    return f"no connection to Claude can be made here ({said}): {mend}"


def _not_sent(error: Exception, hidden: tuple[str, ...]) -> FailedTry:
    """Classify an unsent request: a failed connection may be retried, an unusable client or request may not."""
    import anthropic

    if isinstance(error, anthropic.APIConnectionError):
        said = one_line(error.__cause__ or error, hidden)
        text = f"Claude cannot be reached ({said}): is there a network, is ANTHROPIC_BASE_URL right"
        return FailedTry(NoAnswer(text, outcome=ReplyOutcome.OVERLOADED, usage=NOTHING), busy=True)
    text = no_client(error, hidden)
    return FailedTry(NoAnswer(text, outcome=ReplyOutcome.FAILED, usage=NOTHING, final=True))


def gave_up(error: NoAnswer, tries: int, seconds: float) -> NoAnswer:
    """Return the error of the last try, with the number of tries and their time."""
    times = "once" if tries == 1 else f"{tries} times"
    return NoAnswer(
        f"{error}; tried {times} in {seconds:.0f} s: come back later, or raise `tries` and `total_seconds`",
        outcome=error.outcome,
        usage=error.usage,
    )


def _of_status(status: int, headers: Mapping[str, str], said: str) -> FailedTry:
    """Classify an HTTP status in place of an answer."""
    # An error inside a stream has the status 200: the service was fine and is now too busy.
    if status in _BUSY or status >= 500 or status < 300:
        text = f"Claude is busy or out of order: {status} ({said})"
        error = NoAnswer(text, outcome=ReplyOutcome.OVERLOADED, usage=NOTHING)
        return FailedTry(error, busy=headers.get("x-should-retry") != "false", wait_s=retry_after_s(headers))
    final = status in _FINAL or status < 400
    mend = _REDIRECT if status < 400 else _MENDS.get(status, "see what it says")
    text = f"Claude says no: {status} ({said}): {mend}"
    return FailedTry(NoAnswer(text, outcome=ReplyOutcome.REJECTED, usage=NOTHING, final=final))


def _lost(error: BaseException, usage: Usage | None, hidden: tuple[str, ...]) -> FailedTry:
    said = _said(error, hidden) or type(error).__name__
    text = f"Claude's answer got lost on its way ({said}): try again, or raise `request_seconds`"
    return FailedTry(NoAnswer(text, outcome=ReplyOutcome.LOST, usage=usage, again=True))


def _said(error: object, hidden: tuple[str, ...]) -> str:
    """Return the service's own words, else the library's."""
    return one_line(getattr(error, "api_message", None) or error, hidden)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait in a service's headers (milliseconds, seconds or a date); None if there is none."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, TypeError, ValueError):
        return None
