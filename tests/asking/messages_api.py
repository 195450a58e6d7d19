"""A loopback server that speaks the Messages API as the client asks, and misbehaves as it is told.

`Api(*plays)` plays one of them for each request, the last one again and again. It bills what it says that it
took, and what it does not say as dearly as a service could: a token for each byte, all of them written into the
cache, and the longest answer.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any, Self

from overlayccl_core.asking.conversation import Usage
from overlayccl_core.asking.money import ADDED_TOKENS

Body = Mapping[str, Any]
SLOW_S = 4.0  # that a slow one takes to break off
INPUT, OUTPUT = 12, 7  # tokens of an answer


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        api = self.server.api
        api.seen.append(body)
        play = api.plays[min(len(api.seen), len(api.plays)) - 1]
        try:
            play(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def bill(self, body: Body, usage: Usage | None = None) -> None:
        """Want money: for what it said that it took, else as dearly as it could."""
        parts = [*body.get("system", ()), *chain(*(message["content"] for message in body["messages"]))]
        tokens = sum(len(part.get("text", "").encode()) for part in parts) + ADDED_TOKENS
        self.server.api.billed.append(usage or Usage(cache_write=tokens, output=body["max_tokens"]))

    def send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def events(self, *events: Body) -> None:
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    api: "Api"


Play = Callable[[Handler, Body], None]


class Api:
    """The server while it runs. seen: the bodies that it was sent. billed: for what it would want money."""

    def __init__(self, *plays: Play) -> None:
        self.plays = plays
        self.seen: list[Body] = []
        self.billed: list[Usage] = []
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.api = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def start(model: str = "claude-opus-5-5", **usage: int | str | None) -> Body:
    tokens = {"input_tokens": INPUT, "output_tokens": 1, **usage}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    return {
        "type": "message_start",
        "message": message | {"stop_reason": None, "stop_sequence": None, "usage": tokens},
    }


def block(index: int, content: Body, *deltas: Body) -> Iterator[Body]:
    yield {"type": "content_block_start", "index": index, "content_block": content}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def end(stop: str = "end_turn", output: int = OUTPUT) -> Iterator[Body]:
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}
    yield {"type": "message_stop"}


def text(said: str) -> Iterator[Body]:
    halves = (said[: len(said) // 2], said[len(said) // 2 :])
    return block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": half} for half in halves))


def tool(index: int, name: str, *json_parts: str) -> Iterator[Body]:
    content = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    return block(index, content, *({"type": "input_json_delta", "partial_json": one} for one in json_parts))


def play(*events: Body) -> Play:
    """A whole stream of events."""
    first, *_, last = events
    tokens = first.get("message", {}).get("usage", {}).get("input_tokens")
    whole = type(tokens) is int and tokens >= 0 and last["type"] == "message_stop"

    def answer(handler: Handler, body: Body) -> None:
        handler.bill(body, Usage(input=tokens, output=OUTPUT) if whole else None)
        handler.begin()
        handler.events(*events)

    return answer


def says(said: str, stop: str = "end_turn", **usage: int | str | None) -> Play:
    return play(start(**usage), {"type": "ping"}, *text(said), *end(stop))


def status(code: int, message: str = "no", kind: str = "api_error", **headers: str) -> Play:
    """An error in place of an answer, which costs nothing."""
    data = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.send(code, data, named)


def garbage(data: bytes) -> Play:
    """A stream of what is no event."""

    def answer(handler: Handler, body: Body) -> None:
        handler.bill(body)
        handler.begin()
        handler.wfile.write(data)

    return answer


def no_json(handler: Handler, body: Body) -> None:
    handler.bill(body)
    handler.send(200, b"<html>It works!</html>", {"content-type": "text/html"})


def cut(handler: Handler, body: Body) -> None:
    """The stream ends in the middle, as if that were its end."""
    handler.bill(body, Usage(input=INPUT, output=body["max_tokens"]))
    handler.begin()
    handler.events(start(), *list(text("half of what was meant"))[:2])


def reset(handler: Handler, body: Body) -> None:
    """The connection is reset before a word."""
    handler.bill(body)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RD)
    handler.close_connection = True


def reset_halfway(handler: Handler, body: Body) -> None:
    cut(handler, body)
    reset_only = handler.connection
    reset_only.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def error_halfway(handler: Handler, body: Body) -> None:
    """An error as an event of a stream that has begun."""
    cut(handler, body)
    handler.events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


def error_at_once(handler: Handler, _: Body) -> None:
    """An error as the only event of a stream, which costs nothing."""
    handler.begin()
    handler.events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


def slow(handler: Handler, body: Body) -> None:
    """Signs of life, and never an end."""
    handler.bill(body, Usage(input=INPUT, output=body["max_tokens"]))
    handler.begin()
    handler.events(start())
    for _ in range(200):
        handler.events({"type": "ping"})
        time.sleep(SLOW_S / 200)


def silent(handler: Handler, body: Body) -> None:
    handler.bill(body)
    handler.begin()
    time.sleep(1.0)


def endless(handler: Handler, body: Body) -> None:
    """Text without an end."""
    handler.bill(body, Usage(input=INPUT, output=body["max_tokens"]))
    handler.begin()
    handler.events(
        start(), {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    )
    delta = {"type": "text_delta", "text": "x" * (1 << 20)}
    while True:
        handler.events({"type": "content_block_delta", "index": 0, "delta": delta})


def echo(handler: Handler, body: Body) -> None:
    """An answer that says the key, wherever it can."""
    handler.bill(body, Usage(input=INPUT, output=OUTPUT))
    key = str(handler.headers["authorization"]).removeprefix("Bearer ")
    handler.begin()
    call = tool(1, key, json.dumps({"key": key, "keys": [{key: key}]}))
    handler.events(start(model=key), *text(f"the key is {key}"), *call, *end("tool_use"))


def echo_error(handler: Handler, _: Body) -> None:
    key = str(handler.headers["authorization"]).removeprefix("Bearer ")
    status(400, f"the key is {key}", "invalid_request_error", request_id=key)(handler, _)
