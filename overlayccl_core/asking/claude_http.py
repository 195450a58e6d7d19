"""The HTTP client beneath `anthropic`: no redirect, a limit of the time and of the size of a whole answer."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic
import httpx2

LOGGERS = ("anthropic", "httpx2", "httpcore2")  # which print headers when they are asked for details
LONGEST_BYTES = 32 << 20  # of an answer as it is sent: a hundred times the longest that models give


class TooLong(Exception):
    """More bytes than any answer has."""


class _Limited(httpx2.SyncByteStream):  # type: ignore[misc]
    """The bytes of a response until its time is over, also where a server sends signs of life alone."""

    def __init__(self, stream: httpx2.SyncByteStream, end: float, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._end = end
        self._clock = clock

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > LONGEST_BYTES:
                raise TooLong(f"more than {LONGEST_BYTES >> 20} MiB")
            if self._clock() > self._end:
                raise httpx2.ReadTimeout("the time of the request is over")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def client(
    seconds: float, connect_s: float, clock: Callable[[], float], leaves: Callable[[], None], *, is_here: bool
) -> httpx2.Client:
    """A client whose responses end after so many seconds, whatever they send, and after as long a silence.

    leaves: called when the first byte of a request goes out, beyond whatever proxy there is. is_here: the service
    runs on this machine, so no proxy is asked, which would read the key.
    """

    def limited(response: httpx2.Response) -> None:
        stream = response.stream
        if isinstance(stream, httpx2.SyncByteStream):
            response.stream = _Limited(stream, clock() + seconds, clock)

    def traced(request: httpx2.Request) -> None:
        def step(name: str, info: Mapping[str, Any]) -> None:
            if name.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
                leaves()

        request.extensions["trace"] = step

    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    # A redirect would hand the request, and maybe the key, to a place that nobody named.
    return anthropic.DefaultHttpxClient(
        timeout=httpx2.Timeout(seconds, connect=min(connect_s, seconds)),
        follow_redirects=False,
        event_hooks={"request": [traced], "response": [limited]},
        **({"transport": httpx2.HTTPTransport()} if is_here else {}),  # nobody looks for proxies then
    )
