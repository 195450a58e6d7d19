"""Recorded answers, found by their prompt, from any model or program."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from overlayccl_core.asking.clean import one_line
from overlayccl_core.asking.conversation import Answer, NoAnswer, ReplyOutcome, Request, Usage, User
from overlayccl_core.asking.record import FOLDER, CallRecord, Records


@dataclass(frozen=True)
class Replay:
    """A LanguageModel over a folder of records, or a results tree with some. Free and deterministic.

    If a prompt has several answers (other models, other temperatures), the answer to the identical request comes
    first, then the order of file names.
    """

    folder: Path
    recorded: bool = True

    def answer(self, request: Request, *, purpose: str) -> Answer:
        """Return the recorded answer, or raise NoAnswer with the request and how to record it."""
        if not self.folder.is_dir():
            raise self._miss(
                f"there is no folder {self.folder}: name one that has recorded answers", final=True
            )
        try:
            records = self._by_prompt.get(request.prompt_digest, ())
        except ValueError as error:
            raise NoAnswer(str(error), outcome=ReplyOutcome.DAMAGED, usage=Usage(), final=True) from None
        for record in sorted(records, key=lambda one: one.digest != request.digest):
            if record.answer is not None:
                return record.answer
        raise self._miss(
            f"{self.folder} has no answer to the request {request.prompt_digest[:12]} ({purpose}: "
            f"{_first_line(request)!r}): record it with proposer=claude or proposer=command, in that tree or with "
            f"the files of the search's folder `{FOLDER}` put there"
        )

    @cached_property
    def _by_prompt(self) -> dict[str, list[CallRecord]]:
        found: dict[str, list[CallRecord]] = {}
        for record in Records(self.folder).answered():
            found.setdefault(record.prompt_digest, []).append(record)
        return found

    def _miss(self, message: str, *, final: bool = False) -> NoAnswer:
        return NoAnswer(message, outcome=ReplyOutcome.NOT_RECORDED, usage=Usage(), final=final)


def _first_line(request: Request) -> str:
    """Return the first line of the last message."""
    last = request.messages[-1] if request.messages else User()
    results = last.results if isinstance(last, User) else ()
    text = last.text or (results[0].text if results else "")
    return one_line(text.strip().partition("\n")[0], ())
