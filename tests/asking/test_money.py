"""What a call costs, and that no call can cost more than the bound says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlayccl_core.asking import money
from overlayccl_core.asking.conversation import Assistant, Request, ToolCall, ToolResult, Usage, User
from tests.asking.requests import PRICES, request

TEXTS = st.text(max_size=40)


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1_000_000, output=2_000_000, cache_read=3_000_000, cache_write=4_000_000)
    assert money.usd_of(usage, "dear", PRICES) == pytest.approx(100 + 2 * 500 + 3 * 10 + 4 * 125)
    assert money.usd_of(usage, "unknown", PRICES) is None


@settings(max_examples=30)
@given(system=TEXTS, said=TEXTS, answered=TEXTS, result=TEXTS, value=TEXTS)
def test_a_prompt_has_no_more_tokens_than_the_bound(
    system: str, said: str, answered: str, result: str, value: str
) -> None:
    call = ToolCall(id="a", name="probe", input={"text": value})
    what = Request(
        system=system,
        messages=(
            User(text=said),
            Assistant(text=answered, calls=(call,)),
            User(results=(ToolResult(id="a", text=result),)),
        ),
        model="dear",
        max_tokens=50,
    )
    dearest = Usage(
        cache_write=sum(len(text.encode()) for text in (system, said, answered, result, value))
        + money.ADDED_TOKENS,
        output=50,
    )
    most = money.most_usd(what, PRICES)
    assert most is not None and most > (money.usd_of(dearest, "dear", PRICES) or 0.0)


def test_a_failure_costs_all_that_it_may_have() -> None:
    what = request(max_tokens=100)
    assert money.usd_of_failure(None, what, PRICES) == money.most_usd(what, PRICES)
    assert money.usd_of_failure(Usage(), what, PRICES) == 0
    assert money.usd_of_failure(Usage(input=10, output=3), what, PRICES) == pytest.approx(
        (1000 + 50_000) / 1e6
    )
    assert money.usd_of_failure(None, request(model="unknown"), PRICES) is None
