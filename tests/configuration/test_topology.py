"""A topology's file: what it may say, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from overlayccl_core.configuration import topology
from overlayccl_core.configuration.topology import load

FOLDER = Path(__file__).parents[2] / topology.FOLDER
TRN1 = "trn1.32xlarge"


def test_the_topology_of_trn1_is_valid() -> None:
    trn1 = load(TRN1, FOLDER)
    assert trn1.ranks_per_node == 32
    assert trn1.tier("network").gb_per_s == 100
    with pytest.raises(ValueError, match=r"'rack'.*node, network"):
        trn1.tier("rack")
    assert dict(trn1.calibration.back_to_back_us)[32] == 238


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("devices: 16", "devices: 0"), "devices: .*got 0"),
        (("most_ranks: 64", "most_rank: 64"), "0.most_rank: .*no such"),
        (("    most_ranks: 64\n", ""), "limits.0: .*most_ranks"),
        (("operation: all_to_all", "operation: all_too"), "limits.1.operation: "),
        (("[2, 130]", "[2, 90]"), r"must rise .*\[2, 90\.0\]"),
        (("holds: true", "holds: maybe"), "true or false"),
        (("[0.5MiB, 5]", "[0.5MiB, 0]"), r"compile_s\.0\.1: .*greater than 0 \(got 0\)"),
        (("8GiB", "much"), "2.most_payload: .*much"),
        (("    source", "    sauce"), "tiers.0.sauce: .*'source'"),
    ],
)
def test_a_wrong_file_gives_one_message_with_file_and_field(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = tmp_path / "mine.yaml"
    good = (FOLDER / f"{TRN1}.yaml").read_text()
    assert change[0] in good
    file.write_text(good.replace(*change))
    with pytest.raises(ValueError, match=message) as error:
        load("mine", tmp_path)
    assert str(error.value).startswith(str(file))
