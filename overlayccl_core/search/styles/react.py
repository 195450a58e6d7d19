"""react: one conversation; the model thinks, submits a strategy, hears the result, and goes on."""

from collections.abc import Generator, Iterator
from typing import Any

from overlayccl_core.asking.conversation import NoAnswer, Tool, ToolCall, ToolResult, User
from overlayccl_core.search.answers import SKETCH, sketch_of_call
from overlayccl_core.search.desk import Desk, Talk
from overlayccl_core.search.proposal import Sketch
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import AskPurpose

SUBMIT = Tool(
    name="submit",
    description="Trace, prove and price a strategy: a function of a whole source in the language.",
    schema=SKETCH,
)
FINISH = Tool(
    name="finish",
    description="End the search.",
    schema={"type": "object", "properties": {}, "additionalProperties": False},
)
NO_CALL = "Call `submit` with a whole source, or `finish`."
NO_SUCH_TOOL = "There is no such tool. " + NO_CALL


def most_calls(search: Any) -> int:
    """Return one call per turn."""
    return int(search.react.turns)


def opening(desk: Desk, standing: Standing) -> tuple[Talk, AskPurpose, User]:
    """Return the task and the tools."""
    talk = desk.talk(standing, (SUBMIT, FINISH))
    return talk, AskPurpose.TURN, talk.message(AskPurpose.TURN, turns=desk.search.react.turns)


def propose(desk: Desk, standing: Standing) -> Iterator[Sketch]:
    """Yield the model's sketches until it ends or its turns are over."""
    talk, purpose, message = opening(desk, standing)
    for left in range(desk.search.react.turns - 1, -1, -1):
        try:
            answer = talk.send(purpose, message)
        except NoAnswer as error:
            if error.final:
                raise
            return
        results = []
        for call in answer.calls:
            if call.name != FINISH.name:
                result = yield from _result(talk, call)
                results.append(result)
        if any(call.name == FINISH.name for call in answer.calls):
            return
        message = User(
            text=f"{NO_CALL if not results else ''} {left} turns left.".strip(), results=tuple(results)
        )


def _result(talk: Talk, call: ToolCall) -> Generator[Sketch, None, ToolResult]:
    """Try the sketch of a call; return the result for the model."""
    if call.name != SUBMIT.name:
        return ToolResult(id=call.id, text=NO_SUCH_TOOL, failed=True)
    attempt, draft = yield from talk.tried(AskPurpose.TURN, sketch_of_call(call))
    if draft is None:
        return ToolResult(id=call.id, text=f"{attempt.outcome.value}: {attempt.message}", failed=True)
    return ToolResult(id=call.id, text=f"{attempt.outcome.value}: {talk.briefing.line(draft.candidate)}")
