"""The key is planted, and is then nowhere in what comes out: answers, errors, what is behind them, logs."""

import logging
import traceback
from itertools import chain

import pytest

from overlayccl_core.asking.clean import REMOVED
from tests.asking import messages_api as api
from tests.asking.messages_api import Play
from tests.asking.rig import SECRET, Rig, answered, failed


@pytest.mark.parametrize(
    "bad",
    [
        api.echo_error,
        api.status(429, f"{SECRET} is busy"),
        api.status(401, SECRET),
        api.reset,
        api.cut,
        api.no_json,
        api.garbage(f"event: message_start\ndata: {SECRET}\n\n".encode()),
        api.play(api.start(), *api.tool(0, "probe", f"}}{SECRET}{{"), *api.end()),
    ],
)
def test_the_key_is_in_no_error_and_in_no_error_behind_it(
    rig: Rig, bad: Play, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    error = failed(rig, bad, tries=2)
    assert error.__cause__ is None and error.__context__ is None
    written = (
        *traceback.format_exception(error),
        repr(error),
        repr(vars(error)),
        caplog.text,
        *capfd.readouterr(),
    )
    assert SECRET not in "".join(chain(written, map(repr, rig.made)))


def test_an_answer_that_says_the_key_is_kept_without_it(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer = answered(rig, api.echo)
    assert SECRET not in repr(answer) + caplog.text
    assert answer.text == f"the key is {REMOVED}" and answer.model == REMOVED
    assert answer.calls[0].input == {"key": REMOVED, "keys": [{REMOVED: REMOVED}]}
