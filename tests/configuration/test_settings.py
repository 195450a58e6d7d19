"""Configuration: presets, override keys, and one message for each mistake."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from overlayccl_core import loader
from overlayccl_core.configuration import models
from overlayccl_core.configuration.searches import load as load_search
from overlayccl_core.configuration.settings import Settings, load, read

ROOT = Path(__file__).parents[2]
FILE = ROOT / "config" / "config.yaml"


PROBING = {"turns": 1, "probes": 1, "seconds": 1, "draws": 1}
DECOMPOSE = {"minimum_steps": 2, "maximum_steps": 3}
ABLATIONS = {"problems": ["tp_mlp"], "searches": ["offline@0"], "begin": "developer", "seeds": 2}


def tuned(*calls: dict[str, Any], **entry: Any) -> dict[str, Any]:
    """A section `tune` with two entries: one of one call, and one of these."""
    right: dict[str, Any] = {"kind": "all_reduce_sum", "elements": 1024}
    second = entry or {"ranks": 2, "calls": [{**right, **one} for one in calls]}
    timing = {"seconds": 1, "minimum_rounds": 2, "maximum_rounds": 3}
    return {**timing, "calls": [{"calls": [right]}, second]}


def config(**changes: Any) -> dict[str, Any]:
    written: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return {**written, **changes}


def test_the_repository_s_configuration_has_the_presets_default_and_smoke() -> None:
    default, smoke = read(FILE), read(FILE, {"preset": "smoke"})
    assert set(default.problems) == set(loader.names("problems")) - {"captured"}
    assert default.probe.minimum_rounds >= 12
    assert default.probe.heldout >= 40
    assert smoke.probe.seconds < default.probe.seconds
    assert smoke.probe.maximum_rounds == default.probe.maximum_rounds
    assert smoke.probe.seconds + smoke.bench.seconds * len(smoke.problems) <= 60
    assert smoke.heldout_seed == default.heldout_seed


def test_default_means_what_the_deployment_says_and_other_presets_themselves() -> None:
    cluster, smoke = read(FILE, usual="cluster"), read(FILE, {"preset": "smoke"}, usual="cluster")
    assert cluster.probe.seconds > read(FILE).probe.seconds and cluster.models == ()
    assert cluster.preset == "default" and cluster.tree == cluster.deployment
    assert smoke == read(FILE, {"preset": "smoke"})
    with pytest.raises(ValueError, match=r"preset:.*'clutser'.*'cluster'"):
        read(FILE, usual="clutser")


def test_problems_may_be_given_as_one_word_after_another() -> None:
    assert read(FILE, {"problems": "grad_ar, tp_mlp"}).problems == ("grad_ar", "tp_mlp")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"heldout_seed": 1}, ("heldout_seed must", "probe.mixed_seed")),
        ({"preset": "smok"}, ("preset", "did you mean 'smoke'")),
        ({"problems": []}, ("problems: ", "got []")),
        ({"cases": {"grad_arr": [{"sizes": [4]}]}}, ("cases: ", "'grad_arr'", "'grad_ar'")),
        ({"cases": {"grad_ar": [{}]}}, ("cases.grad_ar.0: ", "got {}")),
        ({"tune": tuned({"kind": "broadcast"})}, ("tune.calls: entry 2: ", "one of all_reduce_sum, ")),
        ({"tune": tuned({"elements": -4})}, ("tune.calls: entry 2: calls.0.elements", "got -4")),
        ({"tune": tuned({"elements": []})}, ("tune.calls: entry 2: calls.0.elements", "got []")),
        ({"tune": tuned({}, {})}, ("tune.calls: entry 2: calls: must be one (got 2)",)),
        ({"tune": tuned(call=[])}, ("tune.calls: entry 2: call: there is no such field", "'calls'")),
        ({"tune": {**tuned(), "calls": []}}, ("tune.calls: ", "got []")),
        ({"problems": ["tp_mpl"]}, ("problems: ", "'tp_mpl'", "'tp_mlp'", "There are: ")),
        ({"ablations": {**ABLATIONS, "searches": ["random@x"]}}, ("ablations.searches.0", "pattern")),
        ({"ablations": {**ABLATIONS, "searches": []}}, ("ablations.searches: ", "got []")),
        ({"probing": {**PROBING, "turns": 0}}, ("probing.turns: ", "calls of the model")),
        ({"probing": {**PROBING, "seconds": 0}}, ("probing.seconds: ", "order no more")),
        ({"ablations": {**ABLATIONS, "seeds": 0}}, ("ablations.seeds: ", "give intervals")),
        ({"ablations": {**ABLATIONS, "begin": "all"}}, ("ablations.begin", "'library' or 'developer'")),
        ({"ablations": {**ABLATIONS, "problems": ["tp_mpl"]}}, ("ablations.problems: ", "'tp_mpl'")),
        ({"decompose": {**DECOMPOSE, "half_width": 5}}, ("decompose.half_width: ", "less than 1 (got 5)")),
        ({"fit": {"bootstrap": 3}}, ("fit.bootstrap", "'bootstraps'")),
        ({"presets": {"default": {"probe": {"second": 3}}}}, ("presets.default.probe.second", "'seconds'")),
        ({"bench": {"seconds": 1, "minimum_rounds": 9, "maximum_rounds": 5}}, ("minimum_rounds", "9 and 5")),
        (
            {"tune": {"seconds": 1, "minimum_rounds": 2, "maximum_rounds": 2, "again": {"seconds": 1}}},
            ("tune.again.minimum_rounds",),
        ),
    ],
)
def test_a_mistake_is_one_message_with_file_field_and_mend(
    changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        load(config(**changes))
    said = str(error.value)
    assert said.startswith("configuration: ") and "\n" not in said
    assert all(part in said for part in ("config/config.yaml", *parts)), said


def test_the_name_of_a_second_round_is_no_name_of_a_search() -> None:
    with pytest.raises(ValueError, match=r"searches.*in -repair1"):
        load(config(searches=["offline", "mine-repair1"]), overrides=[])


def test_a_proposer_is_a_search_beside_those_that_are_configured() -> None:
    keys = {"proposer": "command", "command": "python mine.py", "max_usd": 5}
    settings = load(config(**keys), overrides=list(keys))
    assert settings.searches == ("offline", "command")
    assert (settings.asking.command, settings.asking.max_usd) == ("python mine.py", 5)
    assert "command@0" in settings.ablations.searches
    offline = load(config(proposer="offline"), overrides=["proposer"])
    assert offline.searches == ("offline",)
    assert offline.ablations.searches.count("offline@0") == 1 and "offline" not in offline.ablations.searches
    folder = ROOT / "config/searches"
    assert settings.asking.of(load_search("command", folder)).command == "python mine.py"
    assert settings.asking.of(load_search("offline", folder)) == load_search("offline", folder)


def test_a_file_from_before_a_section_still_has_settings_and_tunes_no_call_of_its_own() -> None:
    older = config()
    later = ("tune", "sweep_m", "sweep_payload")
    older["presets"] = {
        name: {k: v for k, v in of.items() if k not in later} for name, of in older["presets"].items()
    }
    assert all(older.pop(name) for name in later) and load(older).tune.calls is None
    assert load(older).part("bench", "cases") == read(FILE).part("bench", "cases")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"yaml: .*no such file"):
        read(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("a: [1")
    with pytest.raises(ValueError, match="not readable as YAML"):
        read(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("cases:\n  a: [1]\nbench: {}\ncases:\n  b: [2]\n")
    with pytest.raises(ValueError, match=r"line 4: cases .*line 1"):
        read(tmp_path / "config.yaml")
    (tmp_path / "config.yaml").write_text("just words")
    with pytest.raises(ValueError, match="must be a mapping"):
        read(tmp_path / "config.yaml")
    with pytest.raises(ValueError, match=r"fit: .*--configfile"):
        load(config(), overrides=["fit"])


def test_a_file_laid_over_the_configuration_stands_above_a_preset_but_its_own() -> None:
    smoke = read(FILE, {"preset": "smoke"})
    case = [{"sizes": [4]}]
    own: dict[str, Any] = {"longrun": {"steps": 12}, "cases": {"grad_ar": case}, "models": ["nano"]}
    merged = config(preset="smoke", models=["nano"])
    merged["longrun"] = {**merged["longrun"], **own["longrun"]}
    merged["cases"] = {**merged["cases"], **own["cases"]}
    assert load(merged).longrun == smoke.longrun != read(FILE).longrun
    mine = load(merged, laid_over=[own])
    assert mine.longrun == smoke.longrun.changed(steps=12) and mine.models == ("nano",)
    assert mine.cases == {**smoke.cases, "grad_ar": tuple(case)} and mine.bench == smoke.bench
    assert load({**merged, "models": "nano-dp"}, overrides=["models"], laid_over=[own]).models == ("nano-dp",)
    assert load(merged, laid_over=[{**own, "presets": merged["presets"]}]) == load(merged)


def test_a_part_has_the_declared_fields_and_raises_on_others() -> None:
    whole = read(FILE)
    part = Settings.from_part(whole.part("probe", "heldout_seed"))
    assert part.probe == whole.probe
    assert part.heldout_seed == whole.heldout_seed
    with pytest.raises(AttributeError, match=r"settings\.fit .*rule"):
        _ = part.fit
    with pytest.raises(AttributeError, match="have no field 'fits'"):
        _ = whole.fits  # type: ignore[attr-defined]


def test_cases_of_one_problem_are_a_part_of_their_own_and_none_where_models_bring_them_all() -> None:
    whole = read(FILE)
    part = Settings.from_part(whole.of_problem("grad_ar").part("cases"))
    assert part.cases == {"grad_ar": whole.cases["grad_ar"]}
    assert "tp_mlp" not in whole.cases
    part = Settings.from_part(whole.of_problem("tp_mlp").part("cases", "models"))
    assert part.cases == {} and part.models == whole.models


def test_the_steps_of_a_long_run_are_a_key_of_their_own_over_any_preset() -> None:
    assert read(FILE).longrun.steps == 2500
    for preset in ("default", "smoke"):
        given = read(FILE, {"longrun_steps": 300, "preset": preset})
        assert given.longrun.steps == 300
        assert given.longrun.seeds == read(FILE, {"preset": preset}).longrun.seeds
    with pytest.raises(ValueError, match=r"longrun\.steps: .*got 3"):
        read(FILE, {"longrun_steps": 3})


def test_a_long_run_may_be_of_some_models_of_a_tree_and_their_courses_stay_the_same() -> None:
    every, one = read(FILE).longrun, read(FILE, {"longrun_models": "nano-dp"}).longrun
    models = ("nano", "nano-dp", "nano-pp")
    assert (every.of(models, "local"), one.of(models, "local")) == (models, ("nano-dp",))
    assert every.of_a_model == one.of_a_model  # or the courses of the others would run again
    assert every.of_a_model != every.changed(steps=300).of_a_model
    with pytest.raises(ValueError, match=r"^longrun\.models: nano-dp is not among .*\(nano\)"):
        one.of(("nano",), "local")
    with pytest.raises(ValueError, match=r"^longrun: no model is trained on local"):
        every.of((), "local")


def test_a_long_run_may_be_of_another_text_where_a_model_reads_any() -> None:
    nano = models.load("nano", ROOT / models.FOLDER)
    section = read(FILE).longrun
    assert section.on_its_text(nano) is nano
    mine = section.changed(corpus="no_texts").on_its_text(nano)
    assert (mine.corpus, mine.tokenizer, mine.name) == ("no_texts", None, "nano")
    with pytest.raises(ValueError, match=r"^longrun:.*nano:.*corpus:.*no_texts"):
        section.changed(corpus="no_texts").check(nano, 4)
    other = models.load("llama-7b", ROOT / models.FOLDER)
    with pytest.raises(ValueError, match=r"^longrun: .*megatron reads"):
        section.changed(corpus="no_texts").check(other, 4)
