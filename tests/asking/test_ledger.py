"""What is known is not asked again, what could cost too much is not sent, and what was spent is not forgotten."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlayccl_core.asking import money
from overlayccl_core.asking.claude import BASE_URL, KEY, Claude, ClaudeSettings
from overlayccl_core.asking.conversation import Answer, MadeBy, NoAnswer, ReplyOutcome, Request, Stop, Usage
from overlayccl_core.asking.ledger import Ledger
from overlayccl_core.asking.record import FOLDER, read, spent
from overlayccl_core.evidence.asked import call_rows
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.table import write
from tests.asking import messages_api as api
from tests.asking.messages_api import Api, Play
from tests.asking.requests import PRICES, YES, Told, ledger, request
from tests.asking.rig import SECRET

LOST = NoAnswer("lost", outcome=ReplyOutcome.LOST, again=True)
MOST = money.most_usd(request(), PRICES) or 0.0
PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy")


def ask(one: Ledger, what: Request | None = None) -> Answer:
    return one.ask(what or request(), purpose="sketch", style="enumerate")


def refused(one: Ledger, what: Request | None = None) -> NoAnswer:
    with pytest.raises(NoAnswer) as error:
        ask(one, what)
    return error.value


def test_an_answer_is_recorded_and_then_not_asked_for_again(tmp_path: Path) -> None:
    model = Told([YES])
    assert ask(ledger(model, tmp_path)) == YES
    again = ledger(model, tmp_path, max_usd=0.0)
    assert ask(again) == YES and len(model.asked) == 1
    (call,) = again.calls
    assert call.recorded and call.record.seconds is None and call.record.usage == YES.usage
    assert call.record.usd == pytest.approx((20 * 100 + 10 * 500) / 1e6)
    assert spent(tmp_path) == call.record.usd


def test_a_request_that_differs_in_anything_is_another(tmp_path: Path) -> None:
    model = Told([YES])
    one = ledger(model, tmp_path)
    others = (request("Another."), request(sample=1), request(max_tokens=99), request(model=""))
    for what in (request(), *others):
        ask(one, what)
    assert len(model.asked) == 5 and not any(call.recorded for call in one.calls)


def test_nothing_is_sent_that_could_cost_more_than_is_left(tmp_path: Path) -> None:
    model = Told([YES])
    error = refused(ledger(model, tmp_path, max_usd=MOST * 0.99))
    assert error.outcome is ReplyOutcome.CEILING and error.final and not model.asked
    assert "max_usd" in str(error) and f"{MOST:.4f}" in str(error) and spent(tmp_path) == 0
    assert ask(ledger(model, tmp_path, max_usd=MOST * 1.01)) == YES


def test_the_ceiling_is_of_the_whole_tree(tmp_path: Path) -> None:
    model = Told([YES])
    ask(ledger(model, tmp_path))
    elsewhere = tmp_path / "b" / FOLDER
    elsewhere.mkdir(parents=True)
    (file,) = (tmp_path / "a" / FOLDER).iterdir()
    file.rename(elsewhere / file.name)
    assert refused(ledger(model, tmp_path, max_usd=MOST)).outcome is ReplyOutcome.CEILING


def test_a_model_without_a_price_is_not_asked_under_a_ceiling(tmp_path: Path) -> None:
    model = Told([YES])
    error = refused(ledger(model, tmp_path, max_usd=9.0), request(model="new"))
    assert error.outcome is ReplyOutcome.UNPRICED and error.final and not model.asked
    assert "config/prices.yaml" in str(error) and "'new'" in str(error)
    free = ledger(model, tmp_path)
    ask(free, request(model="new"))
    assert free.calls[0].record.usd is None


def test_a_program_of_ones_own_has_no_ceiling_but_its_tokens_are_priced(tmp_path: Path) -> None:
    one = ledger(Told([YES, Answer(text="no")]), tmp_path, max_usd=0.0)
    ask(one, request(model=""))
    ask(one, request("Another.", model=""))
    priced, not_priced = one.calls
    assert priced.record.usd == pytest.approx(0.007) and not_priced.record.usd is None


def test_who_does_not_count_tokens_may_have_used_the_most(tmp_path: Path) -> None:
    one = ledger(Told([Answer(text="yes")]), tmp_path)
    ask(one)
    assert one.calls[0].record.usd == spent(tmp_path) == MOST


class PowerLoss(BaseException):
    pass


def test_a_run_that_is_killed_has_spent_what_it_may_have(tmp_path: Path) -> None:
    class Killed(Told):
        def answer(self, request: Request, *, purpose: str) -> Answer:
            raise PowerLoss

    with pytest.raises(PowerLoss):
        ask(ledger(Killed([YES]), tmp_path))
    assert spent(tmp_path) == MOST
    (file,) = (tmp_path / "a" / FOLDER).iterdir()
    left = read(file)
    assert (left.outcome, left.answer, left.usd) == (ReplyOutcome.ASKED, None, MOST)
    assert refused(ledger(Told([YES]), tmp_path, max_usd=1.5 * MOST)).outcome is ReplyOutcome.CEILING
    assert ask(ledger(Told([YES]), tmp_path)) == YES
    assert spent(tmp_path) == pytest.approx(MOST + 0.007)


def test_what_got_lost_is_asked_once_more_at_its_own_cost(tmp_path: Path) -> None:
    one = ledger(Told([LOST, YES]), tmp_path)
    assert ask(one) == YES
    assert [call.record.outcome for call in one.calls] == [ReplyOutcome.LOST, Stop.END]
    assert one.calls[0].record.usd == MOST and spent(tmp_path) == pytest.approx(MOST + 0.007)
    for others, ceiling in ((YES, 1.5 * MOST), (LOST, None)):
        tree = tmp_path / f"{ceiling}"
        one = ledger(Told([LOST, others]), tree, max_usd=ceiling)
        last = ReplyOutcome.CEILING if ceiling else ReplyOutcome.LOST
        assert refused(one).outcome is last
        assert [call.record.outcome for call in one.calls] == [ReplyOutcome.LOST, last]
        assert spent(tree) == pytest.approx(MOST if ceiling else 2 * MOST)


@pytest.mark.parametrize("usage", [Usage(), Usage(input=12, output=1)])
def test_a_failure_costs_nothing_or_as_much_as_it_may_have(tmp_path: Path, usage: Usage) -> None:
    one = ledger(Told([NoAnswer("no", outcome=ReplyOutcome.LOST, usage=usage)]), tmp_path)
    refused(one)
    (call,) = one.calls
    assert call.record.usage == usage and call.record.message == "no" and call.record.seconds == 1.0
    assert (
        call.record.usd
        == spent(tmp_path)
        == (0.0 if usage == Usage() else pytest.approx((12 * 100 + 100 * 500) / 1e6))
    )


def test_what_is_replayed_costs_nothing_and_is_not_kept_twice(tmp_path: Path) -> None:
    one = ledger(Told([YES], recorded=True), tmp_path, max_usd=0.0)
    assert ask(one) == YES
    (call,) = one.calls
    assert call.recorded and call.record.seconds is None and call.record.usd == pytest.approx(0.007)
    assert spent(tmp_path) == 0 and not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ALL_PROXY", "socks5://127.0.0.1:9"), ("HTTPS_PROXY", "ftp://127.0.0.1:9")),
        *(("SSL_CERT_FILE", "/not/there.pem"), ("HTTPS_PROXY", "http://127.0.0.1:9")),
        (BASE_URL, "https://nobody.invalid"),
    ],
)
def test_what_was_not_sent_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for variable in (*PROXIES, "SSL_CERT_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv(name, value)
    one = ledger(Claude(ClaudeSettings(tries=2), sleep=lambda _: None), tmp_path, max_usd=9.0)
    for _ in range(3):
        assert name in str(error := refused(one)) or "cannot be reached" in str(error)
    assert [call.record.usd for call in one.calls] == [0.0, 0.0, 0.0]
    assert spent(tmp_path) == 0 and not list((tmp_path / "a" / FOLDER).iterdir())


def test_a_damaged_record_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    model = Told([YES])
    ask(ledger(model, tmp_path))
    (file,) = (tmp_path / "a" / FOLDER).iterdir()
    file.write_text(file.read_text().replace('"Write one."', '"Write two."'))
    error = refused(ledger(model, tmp_path))
    assert error.outcome is ReplyOutcome.DAMAGED and error.final and str(file) in str(error)
    other = refused(ledger(model, tmp_path, max_usd=9.0), request("Another."))
    assert other.outcome is ReplyOutcome.DAMAGED and len(model.asked) == 1


def test_a_record_says_who_answered_what_and_when(tmp_path: Path) -> None:
    scripted = Answer(text="def best(p):", made_by=MadeBy.SCRIPTED)
    ask(ledger(Told([scripted]), tmp_path), request(model=""))
    (file,) = (tmp_path / "a" / FOLDER).iterdir()
    said = json.loads(file.read_text())
    assert file.stem == said["digest"] == request(model="").digest
    assert said["prompt_digest"] == request().prompt_digest
    assert (said["made_by"], said["date"], said["purpose"]) == (
        "scripted",
        "2026-10-24T12:00:00+00:00",
        "sketch",
    )
    assert said["request"] == json.loads(json.dumps(request(model="").to_json()))
    assert said["answer"]["text"] == "def best(p):"


def test_calls_are_rows(tmp_path: Path) -> None:
    one = ledger(Told([YES, LOST, NoAnswer("no", outcome=ReplyOutcome.FAILED)]), tmp_path)
    ask(one)
    ask(one)
    refused(one, request("Another."))
    head = {"case": "c", "direction": "forward", "search": "a"}
    frame = write(CALLS, [head | row for row in call_rows(one.calls)], tmp_path / "calls.parquet")
    assert frame["outcome"].to_list() == ["end", "end", "lost", "failed"]
    assert frame["recorded"].to_list() == [False, True, False, False]
    assert frame["input_tokens"].to_list() == [20, 20, None, None]
    assert frame["seconds"].to_list() == [1.0, None, 1.0, 1.0]
    assert frame["number"].to_list() == [0, 1, 2, 3]


def test_every_outcome_may_stand_in_the_table() -> None:
    (column,) = (column for column in CALLS.columns if column.name == "outcome")
    assert set(column.values) == {*Stop, *ReplyOutcome} - {ReplyOutcome.ASKED}
    (column,) = (column for column in CALLS.columns if column.name == "made_by")
    assert set(column.values) == set(MadeBy)


PLAYS: list[Play] = [
    *(api.says("yes"), api.says("I", "refusal"), api.says("I", "max_tokens")),
    *(api.status(429), api.status(529), api.status(500), api.status(400), api.status(401), api.status(307)),
    *(api.no_json, api.cut, api.reset, api.reset_halfway, api.error_halfway, api.error_at_once, api.echo),
    api.garbage(b"event: message_start\ndata: {\n\n"),
    api.play(api.start(), *api.tool(0, "probe", "[1]"), *api.end("tool_use")),
    api.play(api.start(input_tokens="many"), *api.text("x"), *api.end()),
]


@given(plays=st.lists(st.sampled_from(PLAYS), min_size=1, max_size=12), share=st.floats(0.0, 6.0))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_service_does_no_more_is_spent_than_may_be(
    plays: list[Play], share: float, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the records, and by the bill of a service that wants money for all that it began, at its dearest."""
    monkeypatch.setenv(KEY, SECRET)
    tree, max_usd = tmp_path_factory.mktemp("tree"), share * MOST
    with Api(*plays) as server:
        monkeypatch.setenv(BASE_URL, server.url)
        claude = Claude(ClaudeSettings(tries=3, request_seconds=5), sleep=lambda _: None)
        one = ledger(claude, tree, max_usd=max_usd)
        for number in range(6):
            try:
                ask(one, request(sample=number))
            except NoAnswer as error:
                assert str(error)
        if claude._client is not None:
            claude._client.close()
    billed = sum(money.usd_of(usage, "dear", PRICES) or 0.0 for usage in server.billed)
    assert spent(tree) <= max_usd + 1e-12
    assert billed <= max_usd + 1e-12
    assert sum(call.record.usd or 0.0 for call in one.calls if not call.recorded) == pytest.approx(
        spent(tree)
    )
    for file in tree.rglob("*.json"):
        assert SECRET not in file.read_text()
        read(file)
    for row in call_rows(one.calls):
        assert SECRET not in repr(row)


def test_attempts_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="attempts must be"):
        ask(ledger(Told([YES]), tmp_path, attempts=0))
