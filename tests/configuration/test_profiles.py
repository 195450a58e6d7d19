"""What a profile says of the configuration, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from overlayccl_core.configuration.profile import FOLDER, load
from overlayccl_core.configuration.settings import check_overrides

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / FOLDER).iterdir())])
def test_what_every_shipped_profile_says_may_be_said(name: str) -> None:
    check_overrides(load(name, ROOT).overrides)


def test_the_profiles_of_a_laptop_and_of_a_cluster_name_their_deployments() -> None:
    assert load("default", ROOT).overrides == {}
    assert load("local", ROOT).overrides == {"deployment": "local"}
    assert load("trn1", ROOT).overrides == {"deployment": "trn1"}


def written(folder: Path, text: str) -> Path:
    """The file of a profile called `mine`."""
    file = folder / FOLDER / "mine" / "profile.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_partition_account_and_devices_are_those_of_its_jobs(tmp_path: Path) -> None:
    assert load("local", ROOT).partition == "" and load("slurm-cpu", ROOT).partition == "cpu"
    assert load("slurm-cpu", ROOT).gres == "" and load("slurm-gpu", ROOT).gres == "gpu:8"
    written(tmp_path, "default-resources: {slurm_partition: p, slurm_account: a, gres: 'gpu:h100:4'}\n")
    mine = load("mine", tmp_path)
    assert (mine.partition, mine.account, mine.gres, mine.overrides) == ("p", "a", "gpu:h100:4", {})


@pytest.mark.parametrize(
    "text", ["config: [deployment=a, problems=x]\n", "config: {deployment: a, problems: x}\n"]
)
def test_both_ways_of_writing_it_are_read(text: str, tmp_path: Path) -> None:
    written(tmp_path, text)
    assert load("mine", tmp_path).overrides == {"deployment": "a", "problems": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config: deployment=a\n", "config: .*'deployment=a'"),
        ("config: [deployment]\n", r"config: .*\['deployment'\]"),
        ("- config\n", "mapping .*got list"),
        ("default-resources: 3\n", "default-resources: must"),
        ("cores: 1\ncores: 2\n", "line 2: cores .*line 1"),
    ],
)
def test_a_wrong_profile_is_one_line_with_the_file(text: str, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ValueError, match=message) as error:
        load("mine", tmp_path)
    assert str(error.value).startswith(f"{file}: ") and "\n" not in str(error.value)


def test_a_profile_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'locl'.*'local'"):
        load("locl", ROOT)
