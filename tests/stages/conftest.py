"""Small flows, made once: tables of tp_mlp at both of its sites, and of uniform_a2a, forward and backward."""

from types import SimpleNamespace

import pytest

from tests.stages.flow import flow_of

EXIT = {"microbatches": 2, "layers": 2, "shape": [1, 16, 16]}


@pytest.fixture(scope="session")
def tp_flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(tmp_path_factory.mktemp("tp_mlp"), "tp_mlp", [EXIT, {**EXIT, "site": "entry"}])


@pytest.fixture(scope="session")
def a2a_flow(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return flow_of(
        tmp_path_factory.mktemp("uniform_a2a"), "uniform_a2a", [{"payload": "64KiB"}, {"payload": "512KiB"}]
    )
