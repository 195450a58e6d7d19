"""Mistakes put into schedules, and the benchmark that asks who finds them."""

import json
import xml.etree.ElementTree as ET
from argparse import Namespace
from pathlib import Path
from random import Random

import pytest

from benchmarks import schedules
from benchmarks.mutants import MISTAKES, mutated
from tests.schedules import small_schedules as small

TEXTS = {"pairs.xml": small.all_pairs(3), "ring.xml": small.ring(3), "plan.json": small.put_and_added()}


@pytest.mark.parametrize("kind", MISTAKES)
@pytest.mark.parametrize("name", ["pairs.xml", "plan.json"])
def test_a_mistake_changes_one_thing_and_says_where(name: str, kind: str) -> None:
    for seed in range(20):
        made = mutated(TEXTS[name], kind, Random(seed))
        assert made is not None and made == mutated(TEXTS[name], kind, Random(seed))
        text, said = made
        assert _parts(text) != _parts(TEXTS[name]) and said.startswith("rank ")


def test_most_mistakes_are_wrong_on_the_machine() -> None:
    faults = 0
    for seed in range(40):
        kind = list(MISTAKES)[seed % len(MISTAKES)]
        made = mutated(TEXTS["pairs.xml"], kind, Random(seed))
        assert made is not None
        faults += schedules.ran(made[0], 8) != schedules.RIGHT
    assert faults >= 30


def test_there_is_no_place_for_a_mistake_of_that_kind() -> None:
    assert mutated(TEXTS["ring.xml"], "dependency dropped", Random(0)) is None
    assert mutated(small.all_to_all(2), "reduction a copy", Random(0)) is None


def test_the_benchmark_has_a_row_for_each_file_and_each_kind(tmp_path: Path) -> None:
    (tmp_path / "ring.xml").write_text(small.ring(3))
    (tmp_path / "hierarchical.xml").write_text(small.hierarchical())
    lines = list(schedules.report(asked(tmp_path)))
    assert [line.split()[0] for line in lines[1:3]] == ["hierarchical.xml", "ring.xml"]
    assert all(line.endswith("proven; right") for line in lines[1:3])
    counted = {
        line[:20].strip(): line[20:].split()[:5] for line in lines if line[:20].strip() in (*MISTAKES, "all")
    }
    assert counted["all"][0] == "10" and counted["all"][4] == "0"
    assert {kind: row[0] for kind, row in counted.items()} == {**dict.fromkeys(MISTAKES, "2"), "all": "10"}


def test_a_proof_that_the_machine_contradicts_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ring.xml").write_text(small.ring(3).replace('type="rrs"', 'type="rcs"'))
    monkeypatch.setattr(schedules, "judged", believed)
    with pytest.raises(SystemExit, match="proven, and wrong on the machine"):
        list(schedules.report(asked(tmp_path, mutants=0)))


def test_a_folder_without_schedules_has_a_mend(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name a folder with schedules"):
        list(schedules.report(asked(tmp_path)))


def test_a_caught_race_is_looked_for_longer() -> None:
    racy = small.all_pairs(4).replace(small._step(2, "s i0 <3.2"), small._step(2, "s i0"))
    mutant = schedules.judged_and_run("pairs.xml", "dependency dropped", racy, "s i0 waits for nobody", 1)
    assert mutant.cell == (False, False) and mutant.judgement.stage == "race"


def believed(_text: str) -> schedules.Judgement:
    """Whatever it is."""
    return schedules.Judgement(stage="proven", message="", seconds=0.0)


def asked(folder: Path, mutants: int = 10) -> Namespace:
    """The options of a small run."""
    return schedules.options().parse_args([str(folder), "--mutants", str(mutants), "--orders", "4"])


def _parts(text: str) -> object:
    if text.startswith("{"):
        return json.loads(text)
    return [(one.tag, dict(one.attrib)) for one in ET.fromstring(text).iter()]
