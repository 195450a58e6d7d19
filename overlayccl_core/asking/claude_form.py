"""Conversion of a Request to arguments of the Messages API, and of its message to an Answer."""

from collections.abc import Iterable
from typing import Any

from overlayccl_core.asking.clean import cleaned
from overlayccl_core.asking.conversation import (
    Answer,
    Assistant,
    Message,
    Request,
    Stop,
    Tool,
    ToolCall,
    Usage,
)

NOTHING_SAID = {"type": "text", "text": "(nothing)"}  # the service takes no empty turn
CACHED = {"type": "ephemeral"}  # for five minutes, renewed at each read
NOT_AN_OBJECT = "not_an_object"  # key for a tool's input of a wrong type: it stays wrong and visible
_STOPS = {
    "tool_use": Stop.TOOL_CALLS,
    "max_tokens": Stop.MAX_TOKENS,
    "model_context_window_exceeded": Stop.MAX_TOKENS,
    "refusal": Stop.REFUSAL,
}
_COUNTS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


def arguments(request: Request) -> dict[str, Any]:
    """Return the arguments of `messages.stream`.

    The service caches the tools and the system prompt, the first parts to be read; in a longer conversation it
    also caches all earlier messages.
    """
    said: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [_message(one) for one in request.messages],
    }
    if request.system:
        said["system"] = [{"type": "text", "text": request.system, "cache_control": CACHED}]
    if request.tools:
        said["tools"] = [_tool(tool) for tool in request.tools]
    if len(request.messages) > 1:
        said["cache_control"] = CACHED
    if request.answer_schema is not None:
        from anthropic import transform_schema

        schema = transform_schema(dict(request.answer_schema))
        said["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if request.temperature is not None:  # older models take one, and the package has no argument for it
        said["extra_body"] = {"temperature": request.temperature}
    return said


def _message(message: Message) -> dict[str, Any]:
    text = [{"type": "text", "text": message.text}] if message.text else []
    if isinstance(message, Assistant):
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)}
            for call in message.calls
        ]
        return {"role": "assistant", "content": list(message.opaque) or [*text, *calls] or [NOTHING_SAID]}
    results = [
        {"type": "tool_result", "tool_use_id": one.id, "content": one.text, "is_error": one.failed}
        for one in message.results
    ]
    return {"role": "user", "content": [*results, *text]}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}


def answer(message: Any, hidden: Iterable[str]) -> Answer:
    """Convert a finished message. Raise ValueError, AttributeError or TypeError if it is malformed."""
    blocks = [cleaned(block.to_dict(warnings=False), hidden) for block in message.content]
    kinds = [block["type"] for block in blocks]
    calls = tuple(
        ToolCall(id=str(block["id"]), name=str(block["name"]), input=_input(block["input"]))
        for block in blocks
        if block["type"] == "tool_use"
    )
    usage = usage_so_far(message)
    if usage is None:
        raise ValueError("it does not say how many tokens it took")
    return Answer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        calls=calls,
        stop=_STOPS.get(message.stop_reason, Stop.END),
        usage=usage,
        model=cleaned(str(message.model), hidden),
        opaque=tuple(blocks) if set(kinds) - {"text", "tool_use"} else (),
    )


def _input(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {NOT_AN_OBJECT: value}


def usage_so_far(message: Any) -> Usage | None:
    """Return the tokens of a message, or of its part so far; None if it does not count them."""
    counts = getattr(message, "usage", None)
    values = {name: getattr(counts, theirs, None) or 0 for name, theirs in _COUNTS.items()}
    if counts is None or not all(type(value) is int and value >= 0 for value in values.values()):
        return None
    return Usage(**values)
