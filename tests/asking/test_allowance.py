"""What may be spent in a results tree, whoever asks in it at the same time."""

from pathlib import Path
from threading import Barrier, Event, Thread

from overlayccl_core.asking import money
from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.asking.conversation import Answer, NoAnswer, Request, Usage
from overlayccl_core.configuration import prices
from tests.asking.requests import PRICES, request

TWO = 2


class Slow:
    """A model that answers when another was refused, or after a while."""

    recorded = False

    def __init__(self) -> None:
        self.asked, self.refused = 0, Event()

    def answer(self, request: Request, *, purpose: str) -> Answer:
        self.asked += 1
        self.refused.wait(5.0)
        return Answer(text="yes", usage=Usage(input=1, output=100), model="dear")


def test_of_two_who_ask_at_once_only_as_many_are_let_in_as_the_ceiling_bears(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(prices, "load", lambda _root: PRICES)
    most = money.most_usd(request("search0"), PRICES)
    assert most is not None
    model, together, refused, ceiling = Slow(), Barrier(TWO), [], 1.5 * most

    def asks(name: str) -> None:
        ledger = Allowance(answers=tmp_path / name / "answers", tree=tmp_path, max_usd=ceiling).ledger(model)
        together.wait()
        try:
            ledger.ask(request(name), purpose="sketch", style="enumerate")
        except NoAnswer as error:
            refused.append(error.outcome.value)
            model.refused.set()

    threads = [Thread(target=asks, args=(f"search{n}",)) for n in range(TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (model.asked, refused) == (1, ["ceiling"])
