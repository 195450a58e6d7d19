"""The command in a message makes what the message is about: of the tree's own deployment and preset."""

from pathlib import Path

import pytest

from overlayccl_core.tables.remake import remake, run_command


@pytest.fixture
def root(tmp_path: Path) -> Path:
    deployments = tmp_path / "config/deployments"
    deployments.mkdir(parents=True)
    for name in ("local", "local-2"):
        (deployments / f"{name}.yaml").touch()
    (tmp_path / "config/config.yaml").write_text("deployment: local\npreset: default\n")
    return tmp_path


@pytest.mark.parametrize(
    ("tree", "options"),
    [
        ("local", ""),
        ("local-smoke", " --config preset=smoke"),
        ("local-2", " --config deployment=local-2"),
        ("local-2-smoke", " --config deployment=local-2 preset=smoke"),
        ("monday", ""),  # a run that was moved
    ],
)
def test_options_are_those_of_the_tree(root: Path, tree: str, options: str) -> None:
    path = root / "results" / tree
    assert run_command(path) == f"snakemake --profile local all{options}"
    assert (
        run_command(path, "results/a", "results/b")
        == f"snakemake --profile local results/a results/b{options}"
    )
    table = path / "problems/tp_mlp/bench.parquet"
    assert remake(table) == f"snakemake --profile local {table} --force{options}"


def test_without_a_configuration_the_plain_command_is_named(tmp_path: Path) -> None:
    assert run_command(tmp_path / "results/local-smoke") == "snakemake --profile local all"
    assert remake("theta.parquet") == "snakemake --profile local theta.parquet --force"
