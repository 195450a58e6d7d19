"""Claude at a server that misbehaves."""

import pytest

from overlayccl_core.asking.claude import BASE_URL, Claude, ClaudeSettings
from overlayccl_core.asking.conversation import Answer, NoAnswer, Request, User
from tests.asking.messages_api import Api, Play

SECRET = "sk-ant-planted-0123456789abcdef"
REQUEST = Request(
    system="You write strategies.",
    messages=(User(text="Write one."),),
    model="claude-opus-5-5",
    max_tokens=100,
)


class Rig:
    """Claude at a server that plays, with the waits that it would have slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._environment = monkeypatch
        self.waits: list[float] = []
        self.made: list[Claude] = []

    def claude(self, url: str, **settings: float) -> Claude:
        limits = {"request_seconds": 5.0, "total_seconds": 1000.0, **settings}
        self._environment.setenv(BASE_URL, url)
        self.made.append(Claude(ClaudeSettings(**limits), sleep=self.waits.append))
        return self.made[-1]

    def close(self) -> None:
        for one in self.made:
            if one._client is not None:
                one._client.close()


def answered(rig: Rig, *plays: Play, request: Request = REQUEST) -> Answer:
    with Api(*plays) as server:
        return rig.claude(server.url).answer(request, purpose="test")


def failed(rig: Rig, *plays: Play, request: Request = REQUEST, **settings: float) -> NoAnswer:
    with Api(*plays) as server, pytest.raises(NoAnswer) as error:
        rig.claude(server.url, **settings).answer(request, purpose="test")
    assert "\n" not in str(error.value)
    return error.value
