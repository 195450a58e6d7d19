"""Each term of the cost model has a colour and a meaning, without being named in the report."""

import pytest

from overlayccl_core.costmodel.features import Term
from overlayccl_core.report import price_chart
from overlayccl_core.report.charts import Ink
from overlayccl_core.report.terms import NAMES


def test_terms_have_colours_of_their_own_and_one_more_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        "launch": Ink.GREY,
        "collectives": Ink.BLUE,
        "amortization": Ink.SKY,
        "copies": Ink.YELLOW,
        "network": Ink.ORANGE,
    }
    assert {term: price_chart.ink_of(term) for term in Term} == before
    monkeypatch.setattr(price_chart, "NAMES", NAMES | {"storage_us": "storage"})
    assert {term: price_chart.ink_of(term) for term in before} == before
    assert price_chart.ink_of("storage") not in before.values()


def test_the_page_says_what_each_term_is() -> None:
    assert all(f" {term}: " in price_chart.READING for term in Term)
