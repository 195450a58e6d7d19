"""A Claude with a key, whose connections are closed after the test."""

from collections.abc import Iterator

import pytest

from overlayccl_core.asking.claude import KEY
from tests.asking.rig import SECRET, Rig


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv(KEY, SECRET)
    one = Rig(monkeypatch)
    yield one
    one.close()
