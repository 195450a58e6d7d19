"""A run's tables, up to its finalists, for tests that forge some."""

from types import SimpleNamespace

import pytest

from tests.stages.flow import flow_of

ENTRY = {"microbatches": 2, "layers": 2, "shape": [1, 16, 16], "site": "entry"}


@pytest.fixture(scope="session")
def flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(tmp_path_factory.mktemp("flow"), "tp_mlp", [ENTRY])
