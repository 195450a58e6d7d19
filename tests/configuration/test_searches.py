"""Searches are files: what stands in them, and what is wrong with one."""

from pathlib import Path

import pytest
import yaml

from overlayccl_core.configuration.searches import Search, load

FOLDER = Path(__file__).parents[2] / "config/searches"


def changed(folder: Path, **fields: object) -> None:
    whole = yaml.safe_load((FOLDER / "offline.yaml").read_text()) | fields
    (folder / "mine.yaml").write_text(yaml.safe_dump({k: v for k, v in whole.items() if v is not None}))


def test_the_default_search_is_there_and_survives_its_own_text() -> None:
    offline = load("offline", FOLDER)
    assert (offline.proposer, offline.elites_a_round, offline.random) == ("offline", 20, 4)
    assert Search.from_json(offline.to_json()) == offline


def test_an_unknown_search_names_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"no search 'wide': .*wide\.yaml does not exist; there are: offline"
    ):
        load("wide", FOLDER)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"elites_a_round": 0},
            r"mine\.yaml: elites_a_round: must be greater than or equal to 1 \(got 0\): how many",
        ),
        ({"proposer": "oracle"}, r"mine\.yaml: proposer: there is no 'oracle' in .*There are: offline"),
        ({"proxy": {"nodes": 5}}, r"mine\.yaml: proxy\.ranks: must be there"),
        ({"depth": 3}, r"mine\.yaml: depth: there is no such field: choose among proposer, "),
        ({"programms": 3}, r"mine\.yaml: programms: there is no such field: did you mean 'programs'"),
        (
            {"proxy": {"nodes": 5, "ranks": 8, "rank": 3}},
            r"proxy\.rank: there is no such field: did you mean 'ranks'",
        ),
        ({"seed": None}, r"mine\.yaml: seed: must be there: seed of the draw"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_field(
    tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    changed(tmp_path, **fields)
    with pytest.raises(ValueError, match=message):
        load("mine", tmp_path)


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("proposer: [")
    with pytest.raises(ValueError, match=r"mine\.yaml: not readable as YAML"):
        load("mine", tmp_path)
