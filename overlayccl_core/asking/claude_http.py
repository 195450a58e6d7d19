"""The HTTP client beneath `anthropic`: no redirects, limits on the time and size of a whole answer."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anthropic
import httpx2

LOGGERS = ("anthropic", "httpx2", "httpcore2")  # they print headers at detailed log levels
LONGEST_BYTES = 32 << 20  # of an answer on the wire: a hundred times a model's longest


class TooLong(Exception):
    """A response exceeds the size of any answer."""


class _Limited(httpx2.SyncByteStream):  # type: ignore[misc]
    """The bytes of a response until its deadline, even if a server sends only signs of life."""

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
    """Return a client with time limits on responses.

    Args:
        seconds: Limit on a whole response, whatever it contains, and on a silence.
        leaves: Called when the first byte of a request goes out, beyond any proxy.
        is_here: The service runs on this machine, so no proxy is asked; it would read the key.
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
    # A redirect would hand the request, and maybe the key, to an unnamed service.
    return anthropic.DefaultHttpxClient(
        timeout=httpx2.Timeout(seconds, connect=min(connect_s, seconds)),
        follow_redirects=False,
        event_hooks={"request": [traced], "response": [limited]},
        **({"transport": httpx2.HTTPTransport()} if is_here else {}),  # ignores proxy settings
    )
