"""Parsing of a language model's answers into ideas and sketches. No part of an answer is trusted.

An answer is JSON of the requested form. A program may also answer with plain text and one fenced block of Python:
the surrounding text is the rationale, the block's last public function the sketch.
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
from overlayccl_core.search.style import AskPurpose

MOST_SHOWN = 4000  # characters kept of malformed arguments
_TEXT = {"type": "string"}


def _form(**properties: Any) -> Mapping[str, Any]:
    """Return the JSON schema of an object with just these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


IDEAS = _form(ideas={"type": "array", "items": _form(name=_TEXT, family=_TEXT, idea=_TEXT)})
SKETCH = _form(function=_TEXT, source=_TEXT, rationale=_TEXT)
FORM_OF = {
    AskPurpose.IDEAS: IDEAS,
    **dict.fromkeys(
        (AskPurpose.IMPLEMENT, AskPurpose.REFINE, AskPurpose.REPAIR, AskPurpose.MEND, AskPurpose.ISLAND),
        SKETCH,
    ),
}
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """An idea for a strategy. family: its difference from the known ones."""

    name: str
    family: str
    idea: str


def ideas_of(answer: Answer, most: int) -> tuple[Idea, ...]:
    """Return the ideas of an answer, at most `most`; none if it is malformed."""
    data = _data(answer.text, IDEAS)
    return () if data is None else tuple(Idea(**idea) for idea in data["ideas"][:most])


def sketch_of(answer: Answer) -> Sketch:
    """Return the sketch of an answer. Without one, return an invalid sketch with the reason as its rationale."""
    if (data := _data(answer.text, SKETCH)) is not None:
        return Sketch(**data)
    blocks = _FENCED.findall(answer.text)
    if len(blocks) == 1:
        around = " ".join(_FENCED.sub(" ", answer.text).split())
        return Sketch(function=_last_function(blocks[0]), source=blocks[0], rationale=around)
    why = {Stop.MAX_TOKENS: "the answer was cut at the token limit", Stop.REFUSAL: "the model refused"}.get(
        answer.stop, "the answer has not the form that was asked for"
    )
    return Sketch(function="", source=answer.text, rationale=why)


def sketch_of_call(call: ToolCall) -> Sketch:
    """Return the sketch submitted by a call; an invalid sketch if the arguments are malformed."""
    data = _of_form(dict(call.input), SKETCH)
    if data is None:
        return Sketch(
            function="", source=json.dumps(dict(call.input))[:MOST_SHOWN], rationale="wrong arguments"
        )
    return Sketch(**data)


def _data(text: str, form: Mapping[str, Any]) -> Any:
    """Parse JSON of the given form; None if the text has another."""
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
    """Return the last public function, or an empty name; tracing then reports the error."""
    try:
        return next(reversed(functions_of(source)), "")
    except Rejected:
        return ""
