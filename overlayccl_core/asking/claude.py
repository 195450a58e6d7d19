"""Claude through the `anthropic` package: the key, retries against a busy service, limits of time and size.

Answers are streamed, to keep long connections alive. Only free failures are retried here: connections that did not
come about, and requests turned down for now (429, 5xx). An answer lost after sending may cost as much as a full
one, so the ledger decides about another attempt.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from random import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import Field

from overlayccl_core.asking import claude_errors, claude_form
from overlayccl_core.asking.claude_errors import FailedTry, UnusableStream
from overlayccl_core.asking.clean import secrets
from overlayccl_core.asking.conversation import Answer, NoAnswer, ReplyOutcome, Request, Usage
from overlayccl_core.configuration.fields import Fields

if TYPE_CHECKING:
    import anthropic

KEY = "ANTHROPIC_API_KEY"
BASE_URL = "ANTHROPIC_BASE_URL"
VENDORS = "https://api.anthropic.com"
WITHOUT = (
    "or go on without it: proposer=offline searches by rules alone, proposer=command asks a program of yours, "
    "proposer=replay takes answers that were recorded"
)
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0  # between tries, if the service names no wait
CONNECT_S = 10.0


class ClaudeSettings(Fields):
    """Limits on retries and time. The environment alone sets the key and the service's address."""

    tries: int = Field(default=8, ge=1, le=100, description="of one request, where the service is busy")
    request_seconds: float = Field(
        default=600, gt=0, description="cuts one try, also one whose answer still comes"
    )
    total_seconds: float = Field(
        default=1200, gt=0, description="begins no other try of a request after that"
    )


@dataclass(slots=True)
class Claude:
    """A LanguageModel. It imports `anthropic` and makes the client at first use."""

    settings: ClaudeSettings
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    recorded: bool = False
    _client: "anthropic.Anthropic | None" = None
    _sent: bool = False  # whether the request of this try has begun to leave

    def check(self) -> None:
        """Raise ValueError, with the fix, if Claude cannot be asked; call this before anything starts."""
        if said := _lacks():
            raise ValueError(said)
        try:
            self._connected()
        except Exception as error:  # bad proxies and certificates raise errors of many types
            said = claude_errors.no_client(error, secrets())
        if said:
            raise ValueError(f"{said}, {WITHOUT}")

    def answer(self, request: Request, *, purpose: str) -> Answer:
        """Return the answer: whole, cut at the token limit, or a refusal. Raise NoAnswer if no try gave one."""
        if said := _lacks():
            raise NoAnswer(said, outcome=ReplyOutcome.NO_KEY, usage=Usage(), final=True)
        began = self.clock()
        for number in range(1, self.settings.tries + 1):
            got = self._try(request)
            if isinstance(got, Answer):
                return got
            if not got.busy:
                raise got.error  # raised outside `except`, so its context holds no key
            wait = got.wait_s if got.wait_s is not None else _wait_s(number)
            passed = self.clock() - began
            if number == self.settings.tries or passed + wait > self.settings.total_seconds:
                raise claude_errors.gave_up(got.error, number, passed)
            self.sleep(wait)
        raise AssertionError("the last try has answered or raised")

    def _try(self, request: Request) -> Answer | FailedTry:
        """Try once. Errors of the library hold the request's headers, so they are not passed on."""
        hidden = secrets()
        message: Any = None  # the part received so far
        self._sent = False
        try:
            with self._connected().messages.stream(**claude_form.arguments(request)) as stream:
                ended = False
                for event in stream:
                    ended = event.type == "message_stop"
                    message = stream.current_message_snapshot
            if not ended:
                raise UnusableStream("the answer broke off")
            return claude_form.answer(message, hidden)
        except Exception as error:  # bad replies raise errors of any type
            return claude_errors.failure(error, message, hidden, sent=self._sent)

    def _leaves(self) -> None:
        self._sent = True

    def _connected(self) -> "anthropic.Anthropic":
        if self._client is None:
            import anthropic

            from overlayccl_core.asking.claude_http import client

            place = _place()
            self._client = anthropic.Anthropic(
                api_key=os.environ[KEY].strip(),
                base_url=place,
                max_retries=0,  # `answer` counts and times the tries
                http_client=client(
                    self.settings.request_seconds,
                    CONNECT_S,
                    self.clock,
                    self._leaves,
                    is_here=urlsplit(place).scheme == "http",
                ),
                open_telemetry=False,  # no part of a request goes elsewhere
            )
        return self._client


def _lacks() -> str:
    """Return the obstacle to asking at all, and its fix; empty if there is none."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        return f"there is no key for Claude: set {KEY} (https://platform.claude.com, API keys), {WITHOUT}"
    if not (key.isascii() and key.isprintable()) or " " in key:
        return f"the key in {KEY} has characters that no key has: set it anew, {WITHOUT}"
    if not _is_safe(_place()):
        return f"{BASE_URL} must be https://HOST (http:// on this machine alone): set it anew, or unset it"
    if find_spec("anthropic") is None:
        return f"the package `anthropic` is not installed: install envs/local.txt, {WITHOUT}"
    return ""


def _place() -> str:
    """Return the service's address: the environment's, else the vendor's."""
    return os.environ.get(BASE_URL, "").strip() or VENDORS


def _is_safe(place: str) -> bool:
    """Return whether the key stays unreadable on its way: encrypted, or on this machine."""
    try:
        url = urlsplit(place)
        host = url.hostname or ""
        return bool(host) and (url.scheme == "https" or (url.scheme == "http" and _is_here(host)))
    except ValueError:  # brackets that do not close
        return False


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _wait_s(number: int) -> float:
    """Double the wait after each try; take off up to half at random, to spread out many clients."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (number - 1)) * (1 - random() / 2)
