"""What ranks find in their environment, and that it is what the published mechanisms of a node take for granted."""

from pathlib import Path

import pytest

from overlayccl_core.backends.torchxla import environment as environments
from overlayccl_core.backends.torchxla.environment import NUMERIC_TOKEN, environment
from overlayccl_core.configuration import topology
from overlayccl_core.configuration.deployment import load

ROOT = Path(__file__).parents[3]
TRN1 = load(ROOT / "config/deployments/trn1.yaml")


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of ranks on the second node."""
    monkeypatch.setattr(environments, "interface_towards", lambda address: f"eth-{address}")
    for name in environments.OF_LIBRARY["neuron"]:
        monkeypatch.delenv(name, raising=False)
    return environment(TRN1, "head")


def test_neuron_meets_where_the_ranks_do(ranks: dict[str, str]) -> None:
    assert ranks["CCOM_SOCKET_IFNAME"] == ranks["GLOO_SOCKET_IFNAME"] == "eth-head"


def test_no_plug_in_of_torch_is_loaded_before_a_rank_has_its_variables(ranks: dict[str, str]) -> None:
    assert ranks["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"


def test_mechanisms_that_a_variable_decides_are_as_it_is_set(ranks: dict[str, str]) -> None:
    holds = {one.name: one.holds for one in topology.load(TRN1.node, ROOT / topology.FOLDER).mechanisms}
    assert holds["other_collectives_of_a_graph_are_chained"] == (ranks[NUMERIC_TOKEN] == "0")
    assert holds["one_recent_graph_is_kept"] == (ranks["NEURON_NUM_RECENT_MODELS_TO_KEEP"] == "1")


def test_a_shell_and_a_deployment_may_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_NUM_RECENT_MODELS_TO_KEEP", "1")
    monkeypatch.setattr(environments, "interface_towards", lambda address: address)
    assert environment(TRN1, "head")["NEURON_NUM_RECENT_MODELS_TO_KEEP"] == "1"
    chained = load(ROOT / "config/deployments/trn1-chained.yaml")
    assert environment(chained, "head")[NUMERIC_TOKEN] == "0"
