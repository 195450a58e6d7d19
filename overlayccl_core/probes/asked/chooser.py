"""Conversation with a language model choosing probes: it orders, they are timed, it gets the measurements.

All its times come from the ranks. However the conversation ends, all timings are kept. Equal answers to equal
measurements make an equal conversation, so an interrupted run goes on from there.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from overlayccl_core.asking.conversation import Message, NoAnswer, Request, Tool, ToolCall, ToolResult, User
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.configuration.sections import FitSection, ProbingSection
from overlayccl_core.costmodel.theta import Coefficient, FitStatus
from overlayccl_core.launching.failures import LaunchError
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.probes.asked.briefing import ProbeBriefing
from overlayccl_core.probes.asked.exchanges import Supports
from overlayccl_core.probes.asked.fit_quality import seconds_of, theta_of, timed_of
from overlayccl_core.probes.asked.tools import bounded, order_of, refusal, tools
from overlayccl_core.probes.probe import Probe

PURPOSE = "probe"
STYLE = "probing"
MOST_CALLS = 64  # calls answered in one turn
MOST_SHOWN = 2000  # characters kept of arguments, of a tool's name and of a message
LAUNCHES_THAT_FAIL = 2  # failed launches to the end
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
COEFFICIENTS = Tool(
    name="coefficients",
    description="What a fit to all that was timed so far says of each column of the cost model. Costs nothing.",
    schema=_NOTHING,
)
FINISH = Tool(name="finish", description="End the choosing.", schema=_NOTHING)
NO_CALL = "Call a tool: order probes, or `finish`."

Row = dict[str, Any]
Ordered = list[tuple[Probe, str]]  # each with the reason against it


class TurnOutcome(StrEnum):
    """Outcome of a tool's call."""

    MEASURED = "measured"
    KNOWN = "known"
    REFUSED = "refused"
    FAILED = "failed"
    TOLD = "told"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of a tool, or one of its ordered probes; `message` is the answer, or the reason against it."""

    turn: int
    tool: str
    arguments: str
    outcome: TurnOutcome
    message: str
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """Reply to a call without an order."""

    outcome: TurnOutcome
    text: str


def _refused(why: str) -> ModelReply:
    return ModelReply(outcome=TurnOutcome.REFUSED, text=why)


def _free(text: str) -> ModelReply:
    return ModelReply(outcome=TurnOutcome.TOLD, text=text)


@dataclass(slots=True, kw_only=True)
class Chooser:
    """Asks for probes, and times them.

    Attributes:
        measure: Times some probes in one launch and returns rows with the timing columns; LaunchError if it fails.
        how: Model, temperature, longest answer and sample of every request.
        asked: Outcome of every call.
        timed: Rows of all timings.
        ended: Reason for the end.
    """

    brief: ProbeBriefing
    budget: ProbingSection
    fit: FitSection
    ledger: Ledger
    how: Mapping[str, Any]
    measure: Callable[[Sequence[Probe]], list[Row]]
    asked: list[Asked] = field(default_factory=list)
    timed: list[Row] = field(default_factory=list)
    ended: str = ""
    _failed: dict[str, str] = field(default_factory=dict)  # Program -> reason
    _failures: int = 0
    _turn: int = 0

    def choose(self) -> None:
        """Ask until the model ends it, its budget is used up, or no answer comes."""
        messages: tuple[Message, ...] = (User(text=self.brief.begin(self._left())),)
        while not self.ended:
            try:
                answer = self.ledger.ask(self._request(messages), purpose=PURPOSE, style=STYLE)
            except NoAnswer as error:
                self.ended = f"asked no more: {error}"
                return
            results = self._results(answer.calls)
            self._turn += 1
            finished = any(call.name == FINISH.name for call in answer.calls)
            self.ended = self.ended or ("it called finish" if finished else self._used_up())
            said = self._left() if results else f"{NO_CALL} {self._left()}"
            messages = (*messages, answer.turn, User(text=said, results=results))

    def _request(self, messages: tuple[Message, ...]) -> Request:
        place = self.brief.place
        supports = Tool(name=Supports.tool, description=Supports.what, schema=bounded(Supports, place))
        offered = (*tools(place), supports, COEFFICIENTS, FINISH)
        return Request(system=self.brief.system, messages=messages, tools=offered, **self.how)

    # ------------------------------------------------------------ the budget
    @property
    def _programs(self) -> set[str]:
        return {row["program"] for row in self.timed} | set(self._failed)

    @property
    def _probes_left(self) -> int:
        return self.budget.probes - len(self._programs)

    @property
    def _seconds_left(self) -> float:
        return self.budget.seconds - sum(map(seconds_of, self.timed))

    def _left(self) -> str:
        turns, seconds = self.budget.turns - self._turn, max(0.0, self._seconds_left)
        return f"Left: {turns} turns, {self._probes_left} probes, {seconds:.1f} seconds of measuring."

    def _used_up(self) -> str:
        """Name the exhausted budget, in a clause; empty: none."""
        if self._probes_left <= 0:
            return f"its {self.budget.probes} probes are used up"
        if self._seconds_left <= 0:
            return f"its {self.budget.seconds:g} seconds of measuring are used up"
        return f"its {self.budget.turns} turns are over" if self._turn >= self.budget.turns else ""

    # ------------------------------------------------------------ a turn
    def _results(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Answer each call, after timing all ordered probes in one launch."""
        ordered: dict[str, Probe] = {}  # by Program: probes to time now
        known = self._programs
        answers = [self._answer(call, number, ordered) for number, call in enumerate(calls)]
        self._measure(list(ordered.values()))
        return tuple(self._told(call, answer, known) for call, answer in zip(calls, answers, strict=True))

    def _told(self, call: ToolCall, answer: Ordered | ModelReply, known: set[str]) -> ToolResult:
        if isinstance(answer, ModelReply):
            self._note(call, answer.outcome, answer.text)
            return ToolResult(id=call.id, text=answer.text, failed=answer.outcome is TurnOutcome.REFUSED)
        heard = [self._heard(call, probe, why, known) for probe, why in answer]
        failed = all(outcome in (TurnOutcome.REFUSED, TurnOutcome.FAILED) for outcome, _ in heard)
        return ToolResult(id=call.id, text="\n".join(line for _, line in heard), failed=failed)

    def _answer(self, call: ToolCall, number: int, ordered: dict[str, Probe]) -> Ordered | ModelReply:
        """Return the probes of an order, adding those to time to `ordered`; or the reply to another call."""
        if number >= MOST_CALLS:
            return _refused(f"at most {MOST_CALLS} calls in one turn: make it in the next")
        if call.name == FINISH.name:
            return _free("ended")
        try:
            if call.name == COEFFICIENTS.name:
                return _free(self._coefficients())
            if call.name == Supports.tool:
                why = self._refusal(Supports.from_data(call.input).probe(self.brief.place))
                return _free(f"no: {why}" if why else "yes")
            order = order_of(call.name, call.input)
            probes = order.probes(self.brief.place) if order else []
        except ValueError as error:
            return _refused(str(error))
        if not probes:
            return _refused(f"there is no such tool. {NO_CALL}")
        here = self._programs | set(ordered)
        judged = [(probe, self._refusal(probe)) for probe in probes]
        runnable = {probe.program.digest: probe for probe, why in judged if not why}
        new = {program: probe for program, probe in runnable.items() if program not in here}
        if len(new) > (left := self._probes_left - len(ordered)):
            return _refused(f"that is {len(new)} more probes, and {left} are left: order fewer")
        ordered |= new
        return judged

    def _measure(self, probes: Sequence[Probe]) -> None:
        """Time probes in one launch; remember failures."""
        if not probes:
            return
        try:
            self.timed += self.measure(probes)
        except LaunchError as error:
            self._failed |= {probe.program.digest: str(error) for probe in probes}
            self._failures += 1
            if self._failures >= LAUNCHES_THAT_FAIL:
                self.ended = f"{self._failures} launches failed, the last: {error}"

    def _heard(self, call: ToolCall, probe: Probe, why: str, known: set[str]) -> tuple[TurnOutcome, str]:
        """Return a probe's outcome and the model's text. A failure's reason stays here: it may name hosts and
        paths."""
        program = probe.program.digest
        if program in self._failed:
            outcome, message = TurnOutcome.FAILED, self._failed[program]
            told = "not measured: its launch failed"
        elif why:
            outcome, message, told = TurnOutcome.REFUSED, why, why
        else:
            outcome = TurnOutcome.KNOWN if program in known else TurnOutcome.MEASURED
            message = told = self._text(program)
        self._note(call, outcome, message, probe)
        return outcome, f"{probe.name}: {told}"

    def _refusal(self, probe: Probe) -> str:
        return refusal(probe, self.brief.capabilities, self.brief.place.deployment)

    def _note(self, call: ToolCall, outcome: TurnOutcome, message: str, probe: Probe | None = None) -> None:
        self.asked.append(
            Asked(
                turn=self._turn,
                tool=call.name[:MOST_SHOWN],
                arguments=json.dumps(dict(call.input), sort_keys=True)[:MOST_SHOWN],
                outcome=outcome,
                message=message[:MOST_SHOWN],
                probe=probe,
            )
        )

    # ------------------------------------------------------------ what is told
    def _text(self, program: str) -> str:
        """Return `1,230 us (1,200..1,260), 8 rounds`, of one call; then its first call, if measured."""
        rows = [row for row in self.timed if row["program"] == program]
        found = measurements(rows)[program].estimate
        low, high = found.interval() if found.rounds > 1 else (found.value, found.value)
        text = f"{figures(found.value)} us ({figures(low)}..{figures(high)}), {found.rounds} rounds"
        first, graphs = rows[0]["first_call_us"], rows[0]["graphs"]
        if first is not None:
            text += f"; first call {figures(first)} us"
        if graphs:
            text += f", of it {figures(rows[0]['compile_us'])} us compiling {graphs} graphs"
        return text

    def _coefficients(self) -> str:
        """Return a line for each column, from a fit to all timings."""
        theta = theta_of(timed_of(self.timed).values(), self.fit)
        if theta is None:
            return "too few probes for a fit"
        found = {c.column: c for c in theta.coefficients}
        return "\n".join(f"{c.name}: {_coefficient(found.get(c))}" for c in self.brief.wanted)


def _coefficient(one: Coefficient | None) -> str:
    if one is None:
        return "in no probe, or optional and not taken"
    if one.status is FitStatus.UNIDENTIFIED or one.value is None or one.low is None or one.high is None:
        return f"not told apart, in {one.programs} probes"
    between = f"{figures(one.low)}..{figures(one.high)}"
    return f"{figures(one.value)} {one.column.unit} ({between}), in {one.programs} probes"
