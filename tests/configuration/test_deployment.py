"""A deployment's file: what it may say, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.configuration.deployment import Deployment, Inheriting, Tier, load
from overlayccl_core.configuration.fields import schema

GOOD = """
backend: torchdist
library: gloo
ranks: 8
ranks_per_node: 4
memory_budget: 1.5GiB
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_file_becomes_a_deployment_named_after_it(tmp_path: Path) -> None:
    deployment = load(written(tmp_path, GOOD))
    assert (deployment.name, deployment.backend, deployment.ranks, deployment.nodes) == (
        "mine",
        "torchdist",
        8,
        2,
    )
    assert deployment.memory_budget_bytes == 3 * 2**29
    assert deployment.tiers == (Tier(name="node", ranks=4), Tier(name="network", ranks=8))


def test_all_ranks_are_on_one_node_unless_said_otherwise(tmp_path: Path) -> None:
    deployment = load(written(tmp_path, GOOD.replace("ranks_per_node: 4\n", "")))
    assert deployment.ranks_per_node == 8
    assert deployment.tiers == (Tier(name="node", ranks=8),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ranks_per_node: 4", "ranks_per_nod: 4"), "ranks_per_nod:.*'ranks_per_node'"),
        (("ranks: 8", "ranks: 1"), "ranks: .* 2 .*got 1"),
        (("ranks_per_node: 4", "ranks_per_node: 3"), "ranks_per_node .*3 and 8"),
        (("1.5GiB", "plenty"), "memory_budget: .*'plenty'"),
        (("backend: torchdist", "backend: torchdst"), "backend: .*'torchdst'"),
        (("library: gloo\n", ""), "library: must be there"),
        (("ranks: 8", "tiers: [{name: node, ranks: 3}, {name: net, ranks: 8}]\nranks: 8"), r"got \[3, 8\]"),
        (("ranks: 8", "tiers: [{name: node, ranks: 4}]\nranks: 8"), r"all 8 ranks.*\[4\]"),
        (("ranks: 8", "tiers: [{name: a, ranks: 4}, {name: a, ranks: 8}]\nranks: 8"), "names must differ"),
    ],
)
def test_a_wrong_file_gives_one_message_with_file_and_field(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        load(written(tmp_path, GOOD.replace(*change)))
    assert str(error.value).startswith(str(tmp_path / "mine.yaml"))


# ----------------------------------------------------------------------------------------------- inheriting
def named(folder: Path, **texts: str) -> Path:
    """Files by name; the folder."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_file_has_the_fields_of_the_one_that_it_inherits_from_but_for_its_own(tmp_path: Path) -> None:
    named(
        tmp_path,
        large=GOOD,
        small="inherits: large\nranks: 4\n",
        least="inherits: small\nmemory_budget: 1KiB",
    )
    small, least = load(tmp_path / "small.yaml"), load(tmp_path / "least.yaml")
    assert (small.name, small.ranks, small.ranks_per_node, small.library) == ("small", 4, 4, "gloo")
    assert small.tiers == (Tier(name="node", ranks=4),)
    assert (least.name, least.ranks, least.memory_budget_bytes) == ("least", 4, 1024)
    assert small.memory_budget_bytes == load(tmp_path / "large.yaml").memory_budget_bytes


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"mine": "inherits: larg\nranks: 4"}, "mine.yaml:.*inherits:.*'larg'.*'large'"),
        ({"mine": "inherits: [large]"}, r"inherits: .*\['large'\]"),
        ({"mine": "inherits: mine"}, "inherits: mine -> mine"),
        ({"mine": "inherits: b", "b": "inherits: mine"}, "mine -> b -> mine"),
        ({"mine": "inherits: large\nrank: 4"}, "mine.yaml: rank.*'ranks'"),
        ({"mine": "inherits: b", "b": "inherits: large\nranks: 6"}, "b.yaml: ranks_per_node"),
    ],
)
def test_wrong_inheriting_is_refused_with_the_file_that_is_to_blame(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(named(tmp_path, large=GOOD, **files) / "mine.yaml")


def test_an_editor_takes_files_that_inherit() -> None:
    whole, part = (schema(Deployment, Inheriting)["$defs"][name] for name in ("Deployment", "Inheriting"))
    assert part["required"] == ["inherits"] and "ranks" in part["properties"]
    assert "ranks" in whole["required"] and "inherits" not in whole["properties"]


@pytest.mark.parametrize(
    ("name", "nodes"), [("trn1", 7), ("trn1-1n", 1), ("trn1-3n", 3), ("trn1-5n", 5), ("trn1-chained", 7)]
)
def test_the_deployments_of_trn1_have_32_ranks_a_node(
    name: str, nodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "torchxla" not in loader.names("backends"):
        backend = tmp_path / "backends/torchxla/backend.py"
        backend.parent.mkdir(parents=True)
        backend.touch()
        monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    deployment = load(Path(__file__).parents[2] / f"config/deployments/{name}.yaml")
    assert (deployment.nodes, deployment.ranks_per_node, deployment.ranks) == (nodes, 32, nodes * 32)
    assert deployment.library == "neuron"
