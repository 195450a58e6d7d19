"""A deployment's file: what it may say, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from overlayccl_core.configuration.deployment import Tier, in_bytes, load

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
    found = load(written(tmp_path, GOOD))
    assert (found.name, found.backend, found.ranks, found.nodes) == ("mine", "torchdist", 8, 2)
    assert found.memory_budget_bytes == 3 * 2**29
    assert found.tiers == (Tier(name="node", ranks=4), Tier(name="network", ranks=8))


def test_all_ranks_are_on_one_node_unless_said_otherwise(tmp_path: Path) -> None:
    found = load(written(tmp_path, GOOD.replace("ranks_per_node: 4\n", "")))
    assert found.ranks_per_node == 8
    assert found.tiers == (Tier(name="node", ranks=8),)


def test_the_deployment_of_this_machine_is_valid() -> None:
    assert load(Path(__file__).parents[2] / "config/deployments/local.yaml").ranks == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("ranks_per_node: 4", "ranks_per_nod: 4"),
            "unknown field 'ranks_per_nod': did you mean 'ranks_per_node'",
        ),
        (("ranks: 8", "ranks: eight"), "ranks: 'eight' is not of type 'integer'"),
        (("ranks: 8", "ranks: 1"), "ranks: 1 is less than the minimum of 2"),
        (("ranks_per_node: 4", "ranks_per_node: 3"), "ranks_per_node must divide ranks (got 3 and 8)"),
        (("1.5GiB", "plenty"), "(bytes that the values of one Program may hold"),
        (("1.5GiB", "0"), "memory_budget: 0"),
        (("backend: torchdist\n", ""), "'backend' is a required property"),
        (("library: gloo\n", ""), "'library' is a required property"),
        (("ranks: 8", "ranks: [8"), "not readable as YAML"),
        (("ranks: 8", "tiers: [{name: node, ranks: 3}, {name: net, ranks: 8}]\nranks: 8"), "got [3, 8]"),
        (("ranks: 8", "tiers: [{name: node, ranks: 4}]\nranks: 8"), "the last hold all 8 ranks"),
        (
            ("ranks: 8", "tiers: [{name: a, ranks: 4}, {name: a, ranks: 8}]\nranks: 8"),
            "names of tiers must differ",
        ),
    ],
)
def test_a_wrong_file_gives_one_message_with_file_and_field(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ValueError) as error:
        load(written(tmp_path, GOOD.replace(*change)))
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "mine.yaml"))


def test_an_unknown_deployment_is_refused_with_those_there_are(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    with pytest.raises(ValueError, match=r"no deployment 'other'.*there are: mine"):
        load(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("text", "size"), [(7, 7), ("7B", 7), ("2KiB", 2048), ("1 MiB", 2**20), ("0.5GiB", 2**29)]
)
def test_sizes_are_numbers_of_bytes_or_carry_a_binary_unit(text: int | str, size: int) -> None:
    assert in_bytes(text) == size


def test_a_size_in_another_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="ends in one of"):
        in_bytes("3 MB".replace("B", "b"))
