"""A Request as arguments of the Messages API, and its message as an Answer."""

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

NOTHING_SAID = {"type": "text", "text": "(nothing)"}  # the service takes no turn that is empty
CACHED = {"type": "ephemeral"}  # for five minutes, each reading of it anew
NOT_AN_OBJECT = "not_an_object"  # the key of a tool's input that is no object, so that it is wrong and seen
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
    """What `messages.stream` takes.

    A cache keeps the tools and the system's part, which come first in what the model reads, and of a conversation
    that goes on also all that was said.
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
    """A message that has ended, as an Answer. ValueError, AttributeError, TypeError: it has not the form of one."""
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
    """The tokens of a message, or of its part that has come; None where it does not say them."""
    counts = getattr(message, "usage", None)
    values = {name: getattr(counts, theirs, None) or 0 for name, theirs in _COUNTS.items()}
    if counts is None or not all(type(value) is int and value >= 0 for value in values.values()):
        return None
    return Usage(**values)
