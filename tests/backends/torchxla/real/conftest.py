"""These tests need the real torch_xla: `make test-xla` runs them, in an environment of its own."""

import os
from importlib import util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALLED = util.find_spec("torch_xla") is not None
if INSTALLED:
    os.environ |= {"PJRT_DEVICE": "CPU", "XLA_ALWAYS_ALLREDUCE": "1"}  # before torch_xla is imported


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without it they are skipped, and say why."""
    for item in items if not INSTALLED else ():
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.skip(reason="torch_xla is not installed here: make test-xla"))
