"""The ledger: all questions to a language model pass through it. It reuses answers and limits and counts costs."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from overlayccl_core.asking import money
from overlayccl_core.asking.conversation import (
    Answer,
    LanguageModel,
    NoAnswer,
    ReplyOutcome,
    Request,
    Usage,
)
from overlayccl_core.asking.record import CallRecord, Records
from overlayccl_core.configuration.prices import FILE, Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One ask, as a row of the table `calls`.

    Attributes:
        recorded: A known answer was reused: nothing was sent or spent; the record's usage and usd are those of the
            original call, and it has no seconds.
    """

    record: CallRecord
    recorded: bool


class Ledger:
    """Ask a model and count the costs; reuse recorded answers from any source.

    Requests without a model name have no price: the costs of a user's own program are unknown, so no ceiling holds
    them.

    Args:
        max_usd: Ceiling on the total cost of all calls of the results tree; None: no ceiling.
        spent: Returns their cost so far.
        clock: Seconds from any start on.
        now: The date in UTC.
        attempts: Times to ask for one answer if it is lost or malformed; each attempt costs.
        alone: A lock; while held, no other process sets money aside.
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
        self.calls: list[LedgerEntry] = []

    def ask(self, request: Request, *, purpose: str, style: str) -> Answer:
        """Return the answer, recorded or new. Raise NoAnswer if there is none; that is an entry, too."""
        blank = self._blank(request, purpose, style)
        for last in (attempt == self._attempts for attempt in range(1, self._attempts + 1)):
            try:
                return self._known(request, blank) or self._asked(request, blank)
            except NoAnswer as error:
                if last or not error.again:
                    raise
        raise ValueError(f"attempts must be at least 1 (got {self._attempts})")

    def _known(self, request: Request, blank: CallRecord) -> Answer | None:
        """Return the recorded answer; None if there is none."""
        try:
            record = self._records.find(request.digest)
        except ValueError as error:
            raise self._refused(blank, str(error), ReplyOutcome.DAMAGED) from None
        if record is None or record.answer is None:
            return None
        self._count(replace(record, purpose=blank.purpose, style=blank.style, seconds=None), recorded=True)
        return record.answer

    def _asked(self, request: Request, blank: CallRecord) -> Answer:
        """Ask the model now."""
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

    def _repeated(self, request: Request, blank: CallRecord) -> Answer:
        """Take an answer recorded elsewhere: spend nothing, keep no second copy."""
        try:
            answer = self._model.answer(request, purpose=blank.purpose)
        except NoAnswer as error:
            self._count(replace(blank, outcome=error.outcome, usd=0.0, message=str(error)), recorded=False)
            raise
        self._count(self._answered(request, blank, answer), recorded=True)
        return answer

    def _reserved(self, request: Request, blank: CallRecord) -> Path | None:
        """Set aside the call's highest possible cost in a file; None if it is zero or unknown."""
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

    def _hold(self, blank: CallRecord, most: float, max_usd: float) -> None:
        """Raise NoAnswer if a call may cost more than is left."""
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

    def _settle(self, reserved: Path | None, record: CallRecord) -> None:
        if reserved is not None:
            self._records.settle(reserved, record)
        elif record.answer is not None:
            self._records.keep(record)
        self._count(record, recorded=False)

    def _blank(self, request: Request, purpose: str, style: str) -> CallRecord:
        """Return the record of a call before it is made."""
        return CallRecord(
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

    def _answered(self, request: Request, blank: CallRecord, answer: Answer) -> CallRecord:
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

    def _refused(self, blank: CallRecord, message: str, outcome: ReplyOutcome) -> NoAnswer:
        """Count a call refused before sending; return the error."""
        self._count(replace(blank, outcome=outcome, usd=0.0, message=message), recorded=False)
        return NoAnswer(message, outcome=outcome, usage=Usage(), final=True)

    def _count(self, record: CallRecord, *, recorded: bool) -> None:
        self.calls.append(LedgerEntry(record=record, recorded=recorded))
