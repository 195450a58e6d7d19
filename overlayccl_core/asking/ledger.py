"""Every question to a language model goes through a ledger: answers that are known, the ceiling, what it cost."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from overlayccl_core.asking import money
from overlayccl_core.asking.conversation import (
    Answer,
    LanguageModel,
    MadeBy,
    NoAnswer,
    ReplyOutcome,
    Request,
    Stop,
    Usage,
)
from overlayccl_core.asking.record import Record, Records
from overlayccl_core.configuration.prices import FILE, Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One ask, as a row of the table `calls`.

    made_by: None: nobody answered. recorded: the answer was known, so nothing was sent or spent; usage and usd are
    then of when it was made. usd, seconds: None is not known, or was not measured now.
    """

    purpose: str
    style: str
    made_by: MadeBy | None
    model: str
    digest: str
    outcome: Stop | ReplyOutcome
    recorded: bool
    usage: Usage | None
    usd: float | None
    seconds: float | None
    message: str


class Ledger:
    """Asks a model and counts. What was answered before is not asked again, whoever answered it.

    max_usd: what all calls of the results tree together may cost; None: no ceiling. spent: what they cost so far.
    clock: seconds from any start on. now: the date in UTC. attempts: how often the same may be asked where an
    answer got lost on its way, each time at its own cost. alone: nobody else sets money aside while it is held.

    A request that names no model has no price: what a program of one's own pays is not known here, and no ceiling
    holds it.
    """

    def __init__(
        self,
        model: LanguageModel,
        records: Records,
        prices: Prices,
        *,
        max_usd: float | None,
        spent: Callable[[], float],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        attempts: int = 2,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._model = model
        self._records = records
        self._prices = prices
        self._max_usd = max_usd
        self._spent = spent
        self._clock = clock
        self._now = now
        self._attempts = attempts
        self._alone = alone
        self.calls: list[Call] = []

    def ask(self, request: Request, *, purpose: str, style: str) -> Answer:
        """The answer, recorded or new. NoAnswer where there is none; that is a Call, too."""
        blank = self._blank(request, purpose, style)
        for last in (attempt == self._attempts for attempt in range(1, self._attempts + 1)):
            try:
                return self._known(request, blank) or self._asked(request, blank)
            except NoAnswer as error:
                if last or not error.again:
                    raise
        raise ValueError(f"attempts must be at least 1 (got {self._attempts})")

    def _known(self, request: Request, blank: Record) -> Answer | None:
        """The answer that was recorded; None where none was."""
        try:
            record = self._records.find(request.digest)
        except ValueError as error:
            raise self._refused(blank, str(error), ReplyOutcome.DAMAGED) from None
        if record is None or record.answer is None:
            return None
        self._count(replace(record, purpose=blank.purpose, style=blank.style, seconds=None), recorded=True)
        return record.answer

    def _asked(self, request: Request, blank: Record) -> Answer:
        """What the model answers now."""
        if self._model.recorded:
            return self._repeated(request, blank)
        reserved = self._reserved(request, blank)
        started = self._clock()
        try:
            answer = self._model.answer(request, purpose=blank.purpose)
        except NoAnswer as error:
            usd = money.usd_of_failure(error.usage, request, self._prices)
            failed = replace(blank, outcome=error.outcome, usage=error.usage, usd=usd, message=str(error))
            self._settle(reserved, replace(failed, seconds=self._clock() - started))
            raise
        answered = self._answered(request, blank, answer)
        self._settle(reserved, replace(answered, seconds=self._clock() - started))
        return answer

    def _repeated(self, request: Request, blank: Record) -> Answer:
        """What is said again from elsewhere: nothing is spent, and nothing is kept twice."""
        try:
            answer = self._model.answer(request, purpose=blank.purpose)
        except NoAnswer as error:
            self._count(replace(blank, outcome=error.outcome, usd=0.0, message=str(error)), recorded=False)
            raise
        self._count(self._answered(request, blank, answer), recorded=True)
        return answer

    def _reserved(self, request: Request, blank: Record) -> Path | None:
        """The file that sets aside the most that the call may cost; None where that is nothing or not known."""
        most = money.most_usd(request, self._prices)
        if self._max_usd is not None and request.model and most is None:
            raise self._refused(
                blank,
                f"{FILE} has no price of the model {request.model!r}, so max_usd cannot hold: add it under "
                "`models`, with its date and source, or leave max_usd out",
                ReplyOutcome.UNPRICED,
            )
        with self._alone():
            if most is not None and self._max_usd is not None and request.model:
                self._hold(blank, most, self._max_usd)
            return self._records.reserve(replace(blank, usd=most)) if most else None

    def _hold(self, blank: Record, most: float, max_usd: float) -> None:
        """NoAnswer if a call may cost more than is left."""
        try:
            spent = self._spent()
        except ValueError as error:
            raise self._refused(blank, str(error), ReplyOutcome.DAMAGED) from None
        if spent + most > max_usd:
            raise self._refused(
                blank,
                f"max_usd: {spent:.4f} of {max_usd:.2f} USD are spent in this results tree, and this call may cost "
                f"{most:.4f}: set it to {spent + most:.2f} or more, or go on with what is recorded",
                ReplyOutcome.CEILING,
            )

    def _settle(self, reserved: Path | None, record: Record) -> None:
        if reserved is not None:
            self._records.settle(reserved, record)
        elif record.answer is not None:
            self._records.keep(record)
        self._count(record, recorded=False)

    def _blank(self, request: Request, purpose: str, style: str) -> Record:
        """The record of a call of which nothing is known yet."""
        return Record(
            digest=request.digest,
            prompt_digest=request.prompt_digest,
            made_by=None,
            model=request.model,
            date=self._now().isoformat(timespec="seconds"),
            purpose=purpose,
            style=style,
            request=request.to_json(),
            outcome=ReplyOutcome.ASKED,
            answer=None,
            usage=None,
            usd=None,
            seconds=None,
        )

    def _answered(self, request: Request, blank: Record, answer: Answer) -> Record:
        model = answer.model or request.model
        if answer.usage is None:
            usd = money.most_usd(request, self._prices)
        else:
            usd = money.usd_of(answer.usage, request.model or model, self._prices)
        return replace(
            blank,
            made_by=answer.made_by,
            model=model,
            outcome=answer.stop,
            answer=answer,
            usage=answer.usage,
            usd=usd,
        )

    def _refused(self, blank: Record, message: str, outcome: ReplyOutcome) -> NoAnswer:
        """The reason for not asking at all."""
        self._count(replace(blank, outcome=outcome, usd=0.0, message=message), recorded=False)
        return NoAnswer(message, outcome=outcome, usage=Usage(), final=True)

    def _count(self, record: Record, *, recorded: bool) -> None:
        self.calls.append(
            Call(
                purpose=record.purpose,
                style=record.style,
                made_by=record.made_by,
                model=record.model,
                digest=record.digest,
                outcome=record.outcome,
                recorded=recorded,
                usage=record.usage,
                usd=record.usd,
                seconds=record.seconds,
                message=record.message,
            )
        )
