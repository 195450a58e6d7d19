"""Searches are files: what stands in them, and what is wrong with one."""

from pathlib import Path

import pytest
import yaml

from overlayccl_core import loader
from overlayccl_core.configuration.searches import Begin, Search, at_seeds, load, schema

FOLDER = Path(__file__).parents[2] / "config/searches"
PLUGINS = Path(__file__).parents[1] / "plugins"


def changed(folder: Path, **fields: object) -> None:
    whole = yaml.safe_load((FOLDER / "offline.yaml").read_text()) | fields
    (folder / "mine.yaml").write_text(yaml.safe_dump({k: v for k, v in whole.items() if v is not None}))


def test_the_default_search_is_there_and_survives_its_own_text() -> None:
    offline = load("offline", FOLDER)
    assert (offline.proposer, offline.elites_a_round, offline.random) == ("offline", 6, 4)
    assert Search.from_json(offline.to_json()) == offline


def test_a_search_may_be_had_with_another_seed() -> None:
    other = load("offline@3", FOLDER)
    assert (other.name, other.seed) == ("offline@3", 3)
    assert other == load("offline", FOLDER).changed(name="offline@3", seed=3)
    assert other.file.as_posix() == "config/searches/offline.yaml"
    with pytest.raises(ValueError, match="no search 'wide'"):
        load("wide@3", FOLDER)


def test_a_variant_takes_the_place_of_fields_of_its_file() -> None:
    alone = load("command+alone@2", FOLDER)
    assert alone == load("command", FOLDER).changed(name="command+alone@2", polish=False, seed=2)
    assert alone.file.as_posix() == "config/searches/command.yaml"


OF_OTHERS = {"no_simulator": "offline", "polished": "scripted"}  # those that ask show prices, and polish
VARIANTS = {path.stem for path in (FOLDER / "variants").glob("*.yaml")}


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *(
            (name, one)
            for name in ("claude", "command", "replay")
            for one in sorted(VARIANTS - set(OF_OTHERS))
        ),
        *((name, one) for one, name in OF_OTHERS.items()),
    ],
)
def test_every_variant_here_is_another_search(name: str, variant: str) -> None:
    varied, plain = load(f"{name}+{variant}", FOLDER), load(name, FOLDER)
    assert varied.changed(name=name) != plain


@pytest.mark.parametrize(
    ("variant", "text", "message"),
    [
        ("loud", None, "no variant 'loud'"),
        ("loud", "", r"loud\.yaml: .*no fields"),
        ("loud", "polished: true", "polished: .*such field"),
        ("alone", "polish: false", "polish: .*such field"),  # the rules have none
    ],
)
def test_what_is_no_variant_is_refused(tmp_path: Path, variant: str, text: str | None, message: str) -> None:
    changed(tmp_path)
    (tmp_path / "variants").mkdir()
    if text is not None:
        (tmp_path / f"variants/{variant}.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(f"mine+{variant}", tmp_path)


@pytest.mark.parametrize("name", ["offline@", "offline@-1", "offline@1@2", "offline@x"])
def test_what_is_no_seed_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}': .*seed"):
        load(name, FOLDER)


def test_searches_are_compared_at_seeds_from_0_on_unless_their_name_tells_one() -> None:
    assert at_seeds(["offline@4", "random"], 2) == ("offline@4", "random@0", "random@1")


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_every_search_here_can_be_read(name: str) -> None:
    assert load(name, FOLDER).begin is Begin.LIBRARY


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"elites_a_round": 0}, "elites_a_round: .*got 0"),
        ({"proposer": "scripted", "sketchs": 2}, "sketchs: .*'sketches'"),
        ({"proposer": "scripted", "sketches": -1}, "sketches: .*got -1"),
        ({"sketches": 2}, "sketches: .*such field"),
        ({"proposer": None}, "proposer: must be there:"),
        ({"proposer": 3}, "proposer: .*got 3"),
        ({"proposer": "oracle"}, "proposer:.*'oracle'.*offline"),
        ({"proxy": {"nodes": 5}}, r"proxy\.ranks: must"),
        ({"depth": 3}, "depth: .*among proposer"),
        ({"proxy": {"nodes": 5, "ranks": 8, "rank": 3}}, r"proxy\.rank: .*'ranks'"),
        ({"seed": None}, "seed: must be there"),
        ({"begin": "nothing"}, "begin: .*or 'developer'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], message: str
) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    changed(tmp_path, **fields)
    with pytest.raises(ValueError, match=rf"mine\.yaml: {message}"):
        load("mine", tmp_path)


def test_a_proposer_has_fields_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted one says how many sketches, and has those of the rules, which it hands over to."""
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    changed(tmp_path, proposer="scripted", sketches=2)
    mine = load("mine", tmp_path)
    assert (mine.sketches, mine.elites_a_round, mine.seconds) == (2, 6, 600)
    assert Search.from_json(mine.to_json()) == mine
    assert mine.changed(seed=5).sketches == 2


def test_a_proposer_without_fields_of_its_own_has_those_of_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "search/proposers").mkdir(parents=True)
    (tmp_path / "search/proposers/bare.py").write_text('"""Says nothing."""\n')
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    changed(tmp_path, proposer="bare", elites_a_round=None, settled=None)
    bare = load("mine", tmp_path)
    assert type(bare) is Search
    assert Search.from_json(bare.to_json()) == bare
    changed(tmp_path, proposer="bare")
    with pytest.raises(ValueError, match=r"elites_a_round: .*such"):
        load("mine", tmp_path)


def test_the_schema_has_the_fields_of_every_proposer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(PLUGINS))
    whole = schema()
    kinds = [whole["$defs"][of["$ref"].split("/")[-1]] for of in whole["anyOf"]]
    of_proposer = {kind["properties"]["proposer"]["const"]: kind for kind in kinds}
    offline, scripted = of_proposer["offline"], of_proposer["scripted"]
    assert offline["properties"]["elites_a_round"]["minimum"] == 1
    assert "sketches" in scripted["properties"] and "sketches" not in offline["properties"]
    assert "name" not in scripted["properties"] and "name" not in scripted["required"]
    assert scripted["additionalProperties"] is False
