"""Data of a conversation with a language model: messages, tools, answers, tokens.

All sources of answers implement one protocol, `LanguageModel`: a vendor's client, any program, recorded answers. A
request has two digests: `prompt_digest` covers the prompt, `digest` also the options (the model's name, its
temperature, the longest answer). Equal digests, equal requests.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool for the model to call. schema: JSON schema of its input, an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call made by a model. id: for reference in its result. input: as received, unchecked."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call, for the model. failed: the call was refused, and the text says why."""

    id: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A message to the model: text, results of its calls, or both (results first)."""

    text: str = ""
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    """An earlier message of the model. opaque: data to return to its vendor unchanged, such as its thinking."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    opaque: tuple[Mapping[str, Any], ...] = ()


Message = User | Assistant
_HOW = ("model", "temperature", "max_tokens")  # options of a request, not part of its prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model.

    Attributes:
        system: The common beginning of many requests, worth caching.
        messages: Turns, from a User's to a User's.
        answer_schema: JSON schema of the answer's text; None: any text.
        sample: Distinguishes equal prompts, so each gets an answer of its own.
        model: The vendor's name; empty: any.
        temperature: None: the model's own.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    answer_schema: Mapping[str, Any] | None = None
    sample: int = 0
    model: str = ""
    temperature: float | None = None
    max_tokens: int

    @property
    def prompt(self) -> dict[str, Any]:
        """The prompt as JSON; each message begins with its role."""
        return {
            "system": self.system,
            "messages": [
                {"role": "user" if isinstance(m, User) else "assistant", **asdict(m)} for m in self.messages
            ],
            "tools": [asdict(tool) for tool in self.tools],
            "answer_schema": self.answer_schema,
            "sample": self.sample,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the whole request as JSON."""
        return self.prompt | {name: getattr(self, name) for name in _HOW}

    @property
    def prompt_digest(self) -> str:
        """sha256 of the prompt."""
        return digests(self.to_json())[0]

    @property
    def digest(self) -> str:
        """sha256 of the whole request."""
        return digests(self.to_json())[1]


def digests(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return (prompt_digest, digest) of the output of `Request.to_json`."""
    said = {key: value for key, value in request.items() if key not in _HOW}
    return _sha256(said), _sha256(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a call. input: without those read from a cache or written into one."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Stop(StrEnum):
    """Why an answer ended."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"  # cut: the text is incomplete
    REFUSAL = "refusal"


class MadeBy(StrEnum):
    """The source of an answer. Scripted answers support no conclusion about models."""

    MODEL = "model"
    COMMAND = "command"  # a program of unknown kind
    SCRIPTED = "scripted"  # a script, or a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer. usage: None if not counted. model: by its own account. opaque: as in Assistant."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: Stop = Stop.END
    usage: Usage | None = None
    model: str = ""
    made_by: MadeBy = MadeBy.MODEL
    opaque: tuple[Mapping[str, Any], ...] = ()

    @property
    def turn(self) -> Assistant:
        """The answer as a turn of the ongoing conversation."""
        return Assistant(text=self.text, calls=self.calls, opaque=self.opaque)


class ReplyOutcome(StrEnum):
    """Why there is no usable answer."""

    ASKED = "asked"  # sent, outcome unknown: the run was killed
    CEILING = "ceiling"  # not sent: it might cost more than is left
    UNPRICED = "unpriced"  # not sent: its cost is unknown
    NO_KEY = "no_key"  # not sent
    REJECTED = "rejected"  # the request, or the key, was turned down
    OVERLOADED = "overloaded"  # in all tries
    LOST = "lost"  # after sending: broken connection or timeout
    MALFORMED = "malformed"  # not the form of an answer
    FAILED = "failed"  # error of the answering program or client
    NOT_RECORDED = "not_recorded"  # no answer was recorded earlier
    DAMAGED = "damaged"  # a record cannot be read


class NoAnswer(Exception):
    """There is no usable answer; the message gives the cause and the fix, in one line.

    Attributes:
        usage: Tokens known to be used all the same; None if unknown.
        final: Any other question is in vain too (no key, no money, no program), so the search goes on without.
        again: The same may be asked once more; the caller first counts this one's possible cost.
    """

    def __init__(
        self,
        message: str,
        *,
        outcome: ReplyOutcome,
        usage: Usage | None = None,
        final: bool = False,
        again: bool = False,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.usage = usage
        self.final = final
        self.again = again


class LanguageModel(Protocol):
    """A source of answers. recorded: answers come from records; they are free and not recorded again."""

    recorded: bool

    def answer(self, request: Request, *, purpose: str) -> Answer:
        """Return the answer, after free retries only.

        Args:
            purpose: The request's purpose, in a word.

        Raises:
            NoAnswer: There is no usable answer.
        """


def _sha256(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
