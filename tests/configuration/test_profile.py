"""What commands of people read of a profile."""

from pathlib import Path

import pytest

from overlayccl_core.configuration.profile import Profile, load

ROOT = Path(__file__).parents[2]


def written(root: Path, text: str) -> Path:
    folder = root / "profiles" / "mine"
    folder.mkdir(parents=True)
    (folder / "profile.yaml").write_text(text)
    return root


def test_the_profiles_that_are_here() -> None:
    assert load(ROOT, "local") == Profile(name="local", deployment="local")
    assert load(ROOT, "slurm-cpu") == Profile(name="slurm-cpu", deployment="slurm-cpu", partition="cpu")
    assert load(ROOT, "trn1").deployment == "trn1"


def test_partition_and_account(tmp_path: Path) -> None:
    text = "config: [deployment=trn1]\ndefault-resources: {slurm_partition: p, slurm_account: a}\n"
    assert load(written(tmp_path, text), "mine") == Profile(
        name="mine", deployment="trn1", partition="p", account="a"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cores: 1", r"profile.yaml: config: must be \[deployment=NAME\]"),
        ("config: {deployment: trn1}", r"must be \[deployment=NAME\]"),
        ("config: [deployment=]", r"must be \[deployment=NAME\]"),
        ("config: [deployment=a]\ndefault-resources: 3", "default-resources: must be a mapping"),
        ("3", "must be a mapping of Snakemake's options"),
    ],
)
def test_what_is_wrong_with_its_file(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        load(written(tmp_path, text), "mine")


def test_a_name_that_is_misspelt_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no profile 'trn2' in .*trn1"):
        load(ROOT, "trn2")
