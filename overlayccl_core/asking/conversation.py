"""What goes to a language model and what comes back: messages and tools in; text or tool calls and usage out.

Whoever answers is behind one protocol, `LanguageModel`: a vendor's client, any program, answers recorded earlier.
A request has two digests. `prompt_digest` is of what is said; `digest` is of that and of how it is to be answered
(the model's name, its temperature, the longest answer). Equal digests, equal requests.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a model may call. schema: JSON schema of its input, an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model made. id: by which its result names it. input: as it came, not checked."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to, for the model. failed: the call was refused, and the text says why."""

    id: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """What is said to the model: a text, results of its calls, or both (the results first)."""

    text: str = ""
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    """What the model said before. opaque: what its vendor wants back with it as it came, such as its thinking."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    opaque: tuple[Mapping[str, Any], ...] = ()


Message = User | Assistant
_HOW = ("model", "temperature", "max_tokens")  # a request is to be answered: no part of what is said


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model.

    system: the part that many requests begin with, worth caching. messages: from a User's to a User's, in turns.
    answer_schema: JSON schema that the text of the answer is to have; None: any text. sample: tells apart requests
    that say the same and are to be answered anew. model: as its vendor names it; empty: whoever answers.
    temperature None: the model's own.
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
        """What is said, as JSON; a message begins with who says it."""
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
        """All of it."""
        return self.prompt | {name: getattr(self, name) for name in _HOW}

    @property
    def prompt_digest(self) -> str:
        """sha256 of what is said."""
        return digests(self.to_json())[0]

    @property
    def digest(self) -> str:
        """sha256 of all of it."""
        return digests(self.to_json())[1]


def digests(request: Mapping[str, Any]) -> tuple[str, str]:
    """(prompt_digest, digest) of what a Request's `to_json` gave."""
    said = {key: value for key, value in request.items() if key not in _HOW}
    return _sha256(said), _sha256(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a call. input: that were neither read from a cache nor written into one."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Stop(StrEnum):
    """Why an answer ended."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"  # cut: the text is not whole
    REFUSAL = "refusal"


class MadeBy(StrEnum):
    """Who made an answer. No conclusion about models is drawn from one that is scripted."""

    MODEL = "model"
    COMMAND = "command"  # a program that does not say what is behind it
    SCRIPTED = "scripted"  # a script, or a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. usage None: whoever answered does not count tokens. model: who says that it answered.

    opaque: as an Assistant's.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    stop: Stop = Stop.END
    usage: Usage | None = None
    model: str = ""
    made_by: MadeBy = MadeBy.MODEL
    opaque: tuple[Mapping[str, Any], ...] = ()

    @property
    def turn(self) -> Assistant:
        """The answer as a turn of the conversation that goes on."""
        return Assistant(text=self.text, calls=self.calls, opaque=self.opaque)


class ReplyOutcome(StrEnum):
    """Why nothing came back that can be used."""

    ASKED = "asked"  # sent, and no more is known: the run was killed
    CEILING = "ceiling"  # not sent: it might cost more than is left
    UNPRICED = "unpriced"  # not sent: what it might cost is not known
    NO_KEY = "no_key"  # not sent
    REJECTED = "rejected"  # the request, or the key, was turned down
    OVERLOADED = "overloaded"  # and stayed so for as long as it was tried
    LOST = "lost"  # the connection, or the time, after it was sent
    MALFORMED = "malformed"  # what came back has not the form of an answer
    FAILED = "failed"  # the program, or the client, that was to answer
    NOT_RECORDED = "not_recorded"  # no answer was recorded earlier
    DAMAGED = "damaged"  # a record cannot be read


class NoAnswer(Exception):
    """Nothing came back that can be used; the message says what happened and the mend, in one line.

    usage: what is known to have been used all the same; None: nothing is known.
    final: asking anything else is in vain too (no key, no money, no program), so the search goes on without.
    again: the same may be asked once more; whoever does counts what this one may have cost first.
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
    """Who answers.

    recorded: whether what it says was said earlier, so that it costs nothing and is not kept anew.
    """

    recorded: bool

    def answer(self, request: Request, *, purpose: str) -> Answer:
        """The answer; NoAnswer where there is none, after what retrying is worth without counting it.

        purpose: what the request is for, in a word.
        """


def _sha256(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
