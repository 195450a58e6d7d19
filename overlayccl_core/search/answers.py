"""From what a language model answered to ideas and sketches. Nothing of an answer is trusted.

An answer is JSON of the form that was asked for. A program that answers may also write plain text with one fenced
block of Python: what stands around it is the rationale, and its last public function the sketch.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from overlayccl_core.asking.conversation import Answer, Stop, ToolCall
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import functions_of
from overlayccl_core.search.proposal import Sketch
from overlayccl_core.search.style import Purpose

MOST_SHOWN = 4000  # characters kept of arguments that are no sketch
_TEXT = {"type": "string"}
IDEAS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "ideas": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _TEXT, "family": _TEXT, "idea": _TEXT},
                "required": ["name", "family", "idea"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["ideas"],
    "additionalProperties": False,
}
SKETCH: Mapping[str, Any] = {
    "type": "object",
    "properties": {"function": _TEXT, "source": _TEXT, "rationale": _TEXT},
    "required": ["function", "source", "rationale"],
    "additionalProperties": False,
}
FORM_OF = {
    Purpose.IDEAS: IDEAS,
    **dict.fromkeys(
        (Purpose.IMPLEMENT, Purpose.REFINE, Purpose.REPAIR, Purpose.MEND, Purpose.ISLAND), SKETCH
    ),
}
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """A way that is to be written out. family: how it is unlike those that are known."""

    name: str
    family: str
    idea: str


def ideas_of(answer: Answer, most: int) -> tuple[Idea, ...]:
    """The ideas of an answer, at most so many; none where it has not their form."""
    data = _data(answer.text, IDEAS)
    return () if data is None else tuple(Idea(**idea) for idea in data["ideas"][:most])


def sketch_of(answer: Answer) -> Sketch:
    """The sketch of an answer. Where it has none, one that does not parse and whose rationale says why."""
    if (data := _data(answer.text, SKETCH)) is not None:
        return Sketch(**data)
    blocks = _FENCED.findall(answer.text)
    if len(blocks) == 1:
        around = " ".join(_FENCED.sub(" ", answer.text).split())
        return Sketch(function=_last_function(blocks[0]), source=blocks[0], rationale=around)
    why = {
        Stop.MAX_TOKENS: "the answer was cut at the token limit",
        Stop.REFUSAL: "the model refused",
    }.get(answer.stop, "the answer has not the form that was asked for")
    return Sketch(function="", source=answer.text, rationale=why)


def sketch_of_call(call: ToolCall) -> Sketch:
    """The sketch that a call submits; one that does not parse where its arguments are others."""
    data = _of_form(dict(call.input), SKETCH)
    if data is None:
        return Sketch(
            function="", source=json.dumps(dict(call.input))[:MOST_SHOWN], rationale="wrong arguments"
        )
    return Sketch(**data)


def _data(text: str, form: Mapping[str, Any]) -> Any:
    """What a text says in JSON of a form; None where it does not."""
    stripped = text.strip()
    if (fenced := re.fullmatch(r"```(?:json)?\s*\n(.*)```", stripped, re.DOTALL)) is not None:
        stripped = fenced[1]
    try:
        return _of_form(json.loads(stripped), form)
    except (ValueError, RecursionError):
        return None


def _of_form(data: Any, form: Mapping[str, Any]) -> Any:
    return data if Draft202012Validator(form).is_valid(data) else None


def _last_function(source: str) -> str:
    """Empty where the source defines none: tracing says what is wrong with it."""
    try:
        return next(reversed(functions_of(source)), "")
    except Rejected:
        return ""
