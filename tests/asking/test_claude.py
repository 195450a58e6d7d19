"""The real `anthropic` client and a server that misbehaves: every answer has its stop, every failure its mend."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from overlayccl_core.asking import claude_http
from overlayccl_core.asking.claude import BASE_URL, KEY, LONGEST_WAIT_S, ClaudeSettings
from overlayccl_core.asking.claude_errors import retry_after_s
from overlayccl_core.asking.claude_form import NOT_AN_OBJECT
from overlayccl_core.asking.conversation import (
    NoAnswer,
    ReplyOutcome,
    Request,
    Stop,
    Tool,
    ToolResult,
    Usage,
    User,
)
from tests.asking import messages_api as api
from tests.asking.messages_api import Api, Play
from tests.asking.rig import REQUEST, Rig, answered, failed

ROOT = Path(__file__).parents[2]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def test_an_answer_has_its_text_its_tokens_and_who_made_it(rig: Rig) -> None:
    tokens = {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
    answer = answered(rig, api.says("def best(p):", **tokens))
    assert (answer.text, answer.stop, answer.model) == ("def best(p):", Stop.END, "claude-opus-5-5")
    assert answer.usage == Usage(input=12, output=7, cache_read=5, cache_write=3)
    assert not rig.waits


def test_what_is_sent_is_cached_where_it_is_said_again_and_goes_by_one_client(rig: Rig) -> None:
    with Api(api.says("yes")) as server:
        claude = rig.claude(server.url)
        claude.answer(REQUEST, purpose="test")
        client = claude._client
        turn = claude.answer(REQUEST, purpose="test").turn
        said = (*REQUEST.messages, turn, User(text="Go on."))
        claude.answer(Request(system="", messages=said, model="m", max_tokens=1), purpose="test")
    assert client is not None and claude._client is client
    first, _, last = server.seen
    assert first["system"] == [
        {"type": "text", "text": REQUEST.system, "cache_control": {"type": "ephemeral"}}
    ]
    assert "cache_control" not in first and first["stream"] is True
    assert last["cache_control"] == {"type": "ephemeral"} and "system" not in last
    assert [m["role"] for m in last["messages"]] == ["user", "assistant", "user"]
    assert last["messages"][1]["content"] == [{"type": "text", "text": turn.text}]


def test_schema_temperature_and_tools_are_sent_as_the_service_wants_them(rig: Rig) -> None:
    request = Request(
        system="s",
        messages=(User(text="t", results=(ToolResult(id="a", text="no", failed=True),)),),
        tools=(Tool(name="probe", description="times one", schema=SCHEMA),),
        answer_schema=SCHEMA,
        model="m",
        temperature=0.5,
        max_tokens=9,
    )
    with Api(api.says("{}")) as server:
        rig.claude(server.url).answer(request, purpose="test")
    (sent,) = server.seen
    assert sent["temperature"] == 0.5 and sent["max_tokens"] == 9
    assert sent["tools"] == [{"name": "probe", "description": "times one", "input_schema": SCHEMA}]
    form = sent["output_config"]["format"]
    assert form["type"] == "json_schema" and form["schema"]["additionalProperties"] is False
    result, text = sent["messages"][0]["content"]
    assert result == {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True}
    assert text == {"type": "text", "text": "t"}


def test_thinking_goes_back_as_it_came(rig: Rig) -> None:
    thought = api.block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "signature_delta", "signature": "abc"},
    )
    events = (api.start(), *thought, *api.tool(1, "probe", '{"n": 1}'), *api.end("tool_use"))
    with Api(api.play(*events), api.says("done")) as server:
        claude = rig.claude(server.url)
        answer = claude.answer(REQUEST, purpose="test")
        said = (
            *REQUEST.messages,
            answer.turn,
            User(results=(ToolResult(id=answer.calls[0].id, text="4 us"),)),
        )
        claude.answer(Request(system="", messages=said, model="m", max_tokens=1), purpose="test")
    assert (answer.stop, answer.text) == (Stop.TOOL_CALLS, "")
    back = server.seen[1]["messages"][1]["content"]
    assert [one["type"] for one in back] == ["thinking", "tool_use"]
    assert back[0]["signature"] == "abc" and back[1]["input"] == {"n": 1}


@pytest.mark.parametrize(
    ("stop", "meant"),
    [
        ("max_tokens", Stop.MAX_TOKENS),
        ("model_context_window_exceeded", Stop.MAX_TOKENS),
        ("refusal", Stop.REFUSAL),
        ("stop_sequence", Stop.END),
        ("something_new", Stop.END),
    ],
)
def test_a_cut_answer_and_a_refusal_are_answers_with_their_stop(rig: Rig, stop: str, meant: Stop) -> None:
    answer = answered(rig, api.says("I", stop))
    assert (answer.stop, answer.text) == (meant, "I")


def test_an_empty_answer_is_one(rig: Rig) -> None:
    answer = answered(rig, api.play(api.start(), *api.end()))
    assert (answer.text, answer.calls, answer.usage) == ("", (), Usage(input=12, output=7))


@pytest.mark.parametrize(
    ("parts", "meant"),
    [
        (('{"siz', 'e": "no number"}'), {"size": "no number"}),
        (("[1, 2]",), {NOT_AN_OBJECT: [1, 2]}),
        ((), {}),
        (('{"size": 1',), {"size": 1}),
    ],
)
def test_wrong_arguments_of_a_tool_come_back_as_they_are(
    rig: Rig, parts: tuple[str, ...], meant: dict[str, object]
) -> None:
    answer = answered(rig, api.play(api.start(), *api.tool(0, "probe", *parts), *api.end("tool_use")))
    assert answer.stop is Stop.TOOL_CALLS
    assert [(call.name, call.input) for call in answer.calls] == [("probe", meant)]


@pytest.mark.parametrize("busy", [*map(api.status, (408, 409, 429, 500, 503, 529)), api.error_at_once])
def test_a_busy_service_is_asked_again(rig: Rig, busy: Play) -> None:
    assert answered(rig, busy, busy, api.says("yes")).text == "yes"
    first, second = rig.waits
    assert 0.5 <= first <= 1 <= second <= 2


def test_a_service_that_says_how_long_is_asked_then(rig: Rig) -> None:
    answered(rig, api.status(429, retry_after="17"), api.status(529, retry_after_ms="250"), api.says("yes"))
    assert rig.waits == [17, 0.25]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("busy", "waits", "said"),
    [
        (api.status(529, "Overloaded"), 2, "529 (Overloaded); tried 3 times"),
        (api.status(429, retry_after="3600"), 0, "429 (no); tried once"),  # a longer wait than total_seconds
        (api.status(429, x_should_retry="false"), 0, "429 (no)"),
    ],
    ids=["tries", "seconds", "not again"],
)
def test_patience_ends(rig: Rig, busy: Play, waits: int, said: str) -> None:
    error = failed(rig, busy, tries=3)
    assert error.outcome is ReplyOutcome.OVERLOADED and error.usage == Usage() and not error.final
    assert said in str(error) and ("total_seconds" in str(error)) is ("tried" in said)
    assert len(rig.waits) == waits and max(rig.waits, default=0) <= LONGEST_WAIT_S


def test_a_service_that_is_not_there_is_tried_and_cost_nothing(rig: Rig) -> None:
    with Api(api.says("")) as server:
        url = server.url
    with pytest.raises(NoAnswer) as error:
        rig.claude(url, tries=2).answer(REQUEST, purpose="test")
    assert error.value.usage == Usage() and "cannot be reached" in str(error.value) and len(rig.waits) == 1


@pytest.mark.parametrize(
    ("code", "final"),
    [(400, False), (401, True), (402, True), (403, True), (404, True), (413, False), (422, False)],
)
def test_a_no_is_not_tried_again_and_says_the_mend(rig: Rig, code: int, final: bool) -> None:
    error = failed(rig, api.status(code, "because"))
    assert error.outcome is ReplyOutcome.REJECTED and error.usage == Usage() and error.final is final
    assert f"{code} (because): " in str(error) and not rig.waits


def test_a_redirect_is_not_followed(rig: Rig) -> None:
    with Api(api.says("caught")) as other:
        error = failed(rig, api.status(307, location=f"{other.url}/v1/messages"))
        assert not other.seen
    assert error.outcome is ReplyOutcome.REJECTED and error.final and BASE_URL in str(error)


@pytest.mark.parametrize(
    ("bad", "known"),
    [
        *((api.cut, True), (api.reset_halfway, None), (api.error_halfway, True)),
        *((api.reset, False), (api.silent, False)),
    ],
)
def test_an_answer_that_breaks_off_is_lost_at_the_cost_of_what_came(
    rig: Rig, bad: Play, known: bool | None
) -> None:
    """known: whether tokens are told; None: as the operating system delivers."""
    error = failed(rig, bad, request_seconds=5.0 if known else 0.3)
    assert error.outcome is ReplyOutcome.LOST and error.again and not rig.waits
    assert error.usage is None or error.usage.input == 12
    assert known is None or (error.usage is not None) is known


def test_signs_of_life_do_not_lengthen_the_time_of_a_request(rig: Rig) -> None:
    began = time.monotonic()
    error = failed(rig, api.slow, request_seconds=0.3)
    assert error.outcome is ReplyOutcome.LOST and "the request is over" in str(error)
    assert time.monotonic() - began < api.SLOW_S


def test_an_answer_without_an_end_is_cut(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_http, "LONGEST_BYTES", 1 << 22)
    error = failed(rig, api.endless)
    assert error.outcome is ReplyOutcome.MALFORMED and "4 MiB" in str(error)


@pytest.mark.parametrize(
    "bad",
    [
        api.no_json,
        api.garbage(b"event: message_start\ndata: {\n\n"),
        api.garbage(b"event: message_start\ndata: []\n\n"),
        api.garbage(b"event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n"),
        api.garbage(b"\xff\xfe\x00" * 100),
        api.garbage(b""),
        api.play(*api.text("no start"), *api.end()),
        api.play(
            api.start(),
            *api.text("before"),
            *list(api.block(9, {"type": "text", "text": ""}))[1:],
            *api.end(),
        ),
        api.play(api.start(input_tokens="many"), *api.text("x"), *api.end()),
        api.play(api.start(input_tokens=-4), *api.text("x"), *api.end()),
        api.play(api.start(), *api.tool(0, "probe", "}{"), *api.end()),
        api.play(api.start(), *api.tool(0, "probe", '{"n":' + "[" * 200 + "]" * 200 + "}"), *api.end()),
        api.play(api.start(), *api.tool(0, "probe", '{"n": NaN}'), *api.end()),
        api.play(api.start(), *api.tool(0, "probe", '{"text": "\\ud800"}'), *api.end()),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(rig: Rig, bad: Play) -> None:
    error = failed(rig, bad)
    assert error.outcome in (ReplyOutcome.MALFORMED, ReplyOutcome.LOST) and error.again and not rig.waits


@pytest.mark.parametrize("key", [None, "", "  ", "two words", "ключ-0123456789"])
def test_without_a_key_it_says_how_to_set_one_and_how_to_go_on(
    rig: Rig, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY) if key is None else monkeypatch.setenv(KEY, key)
    claude = rig.claude("http://127.0.0.1:9")
    with pytest.raises(NoAnswer) as error:
        claude.answer(REQUEST, purpose="test")
    with pytest.raises(ValueError) as before:
        claude.check()
    assert str(before.value) == str(error.value)
    assert error.value.outcome is ReplyOutcome.NO_KEY and error.value.final and error.value.usage == Usage()
    assert KEY in str(error.value) and "proposer=offline" in str(error.value)
    assert not (key or "").strip() or key not in str(error.value)


@pytest.mark.parametrize(
    "place",
    [
        *("api.example.org", "http://api.example.org", "http://127.0.0.1.example.org", "ftp://127.0.0.1"),
        *("https://", "https://[::1", "http://api.example.org#@127.0.0.1"),
    ],
)
def test_the_key_goes_in_clear_to_this_machine_alone(rig: Rig, place: str) -> None:
    with pytest.raises(ValueError, match="ANTHROPIC_BASE_URL must"):
        rig.claude(place).check()


@pytest.mark.parametrize("place", ["", "https://api.example.org/v1", "http://127.0.0.1:9", "http://[::1]:9"])
def test_it_goes_to_the_vendor_or_where_the_environment_says(rig: Rig, place: str) -> None:
    claude = rig.claude(place)
    claude.check()
    assert str(claude._connected().base_url).rstrip("/") == (place or "https://api.anthropic.com")


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_no_proxy_hears_what_goes_in_clear(rig: Rig, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Api(api.says("caught")) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        assert answered(rig, api.says("yes")).text == "yes"
    assert not proxy.seen


def test_no_configuration_says_where_the_key_goes() -> None:
    with pytest.raises(ValueError, match="base_url"):
        ClaudeSettings.from_data({"base_url": "https://api.example.org"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "socksio"),
        ("HTTPS_PROXY", "ftp://user:secret@127.0.0.1:9", "ftp"),
        ("SSL_CERT_FILE", "/not/there.pem", "No such file"),
        ("SSL_CERT_FILE", __file__, "certificate"),
    ],
)
def test_a_client_that_cannot_be_made_is_said_before_anything_starts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    claude = rig.claude("")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as before:
        claude.check()
    with pytest.raises(NoAnswer) as error:
        claude.answer(REQUEST, purpose="test")
    assert error.value.final and error.value.usage == Usage() and not rig.waits
    assert str(before.value).startswith(str(error.value)) and "proposer=offline" in str(before.value)
    assert said in str(error.value) and f"set {name}" in str(error.value)
    assert "secret" not in str(error.value) and "\n" not in str(before.value)


def test_nothing_but_asking_imports_the_package() -> None:
    code = (
        "import sys; from overlayccl_core.asking import claude, command, ledger, replay; "
        "claude.Claude(claude.ClaudeSettings()); sys.exit('anthropic' in sys.modules or 'httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
