"""For all tests: in which order they start; how long an example takes is not tested, since machines are shared."""

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs of the pipeline come first: they take minutes, for which a second worker would wait at the end."""
    items.sort(key=lambda item: (-_timeout(item), item.path.parent.name != "workflow"))


def _timeout(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0
