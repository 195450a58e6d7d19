"""docs/parallelcluster.yaml: held to the schema of aws-parallelcluster, where it is installed, and to our files.

The package pins many others, so it has an environment of its own: `make test-parallelcluster` makes it and runs
this there. What is checked is the schema, offline; what AWS has (subnets, keys, capacity) is not asked for.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/parallelcluster.yaml"
NODES = 7
OURS = re.compile(r"your-|subnet-0000|^Region:")  # what nobody can know but who makes the cluster
MARK = "# FILL IN"


def config() -> Any:
    return yaml.safe_load(FILE.read_text())


def test_the_schema_of_the_package_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pytest.importorskip("pcluster.schemas.cluster_schema", reason="`make test-parallelcluster`")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    found = schema.ClusterSchema(cluster_name="overlayccl").load(config())
    (queue,) = found.scheduling.queues
    (resource,) = queue.compute_resources
    assert (resource.instance_type, resource.max_count, resource.efa.enabled) == (
        "trn1.32xlarge",
        NODES,
        True,
    )


def test_the_schema_of_the_package_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pytest.importorskip("pcluster.schemas.cluster_schema", reason="`make test-parallelcluster`")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    wrong = config()
    wrong["Scheduling"]["SlurmQueues"][0]["ComputeResources"][0]["Efa"] = {"Enabld": True}
    with pytest.raises(Exception, match=r"Enabld.*Unknown field"):
        schema.ClusterSchema(cluster_name="overlayccl").load(wrong)


def test_it_is_seven_nodes_with_efa_in_a_placement_group_a_private_subnet_and_a_shared_folder() -> None:
    whole = config()
    (queue,) = whole["Scheduling"]["SlurmQueues"]
    (resource,) = queue["ComputeResources"]
    assert (resource["InstanceType"], resource["MaxCount"], resource["Efa"]) == (
        "trn1.32xlarge",
        NODES,
        {"Enabled": True},
    )
    assert queue["Networking"]["PlacementGroup"] == {"Enabled": True}
    assert queue["Networking"]["SubnetIds"] != [whole["HeadNode"]["Networking"]["SubnetId"]]
    assert [storage["StorageType"] for storage in whole["SharedStorage"]] == ["FsxLustre"]
    scripts = {place["CustomActions"]["OnNodeConfigured"]["Script"] for place in (queue, whole["HeadNode"])}
    assert {Path(script).name for script in scripts} == {"install_neuron.sh"}
    assert (ROOT / "docs/install_neuron.sh").is_file()


def test_its_queue_is_the_partition_of_the_profile() -> None:
    profile = yaml.safe_load((ROOT / "profiles/trn1/profile.yaml").read_text())
    [queue] = config()["Scheduling"]["SlurmQueues"]
    assert queue["Name"] == profile["default-resources"]["slurm_partition"]


def test_all_that_has_to_be_filled_in_is_marked_and_nothing_else() -> None:
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if OURS.search(line)] == [line for line in lines if MARK in line]
    assert len([line for line in lines if MARK in line]) == 8


def versions(path: Path) -> dict[str, str]:
    """Package -> its exact version in a file of requirements."""
    pins = (line.split(" #")[0].strip() for line in path.read_text().splitlines())
    return dict(pin.split("==") for pin in pins if "==" in pin)


def test_the_environment_of_trn1_is_one_release_of_neuron_and_else_that_of_everybody() -> None:
    here, everywhere = versions(ROOT / "envs/trn1.txt"), versions(ROOT / "envs/local.txt")
    assert {name: version for name, version in here.items() if name not in everywhere} == {
        "torch-neuronx": "2.9.0.2.12.22436",
        "neuronx-cc": "2.23.6484.0",
        "libneuronxla": "2.2.15515.0",
    }
    assert {name: everywhere[name] for name in here if name in everywhere} == {
        name: version for name, version in here.items() if name in everywhere
    }
    assert set(everywhere) - set(here) == {"torch", "numpy"}  # Neuron's packages bring theirs


def test_the_system_packages_are_of_the_same_release() -> None:
    script = (ROOT / "docs/install_neuron.sh").read_text()
    assert dict(re.findall(r"aws-neuronx-([a-z-]+)=([\d.]+)\*", script)) == {
        "dkms": "2.26.5",
        "collectives": "2.30.59",
        "runtime-lib": "2.30.51",
        "tools": "2.",
    }
