"""`--config captured=FILE`: the calls of a step as Cases, in a tree of its own; or one clear error."""

from pathlib import Path

import pytest
import yaml

from overlayccl_core.configuration.captured import KEPT, entries, preset_of
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import FILE, read
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.table import write
from tests.observing.captured_rows import call, step, summed

ROOT = Path(__file__).parents[2]
CALLS = [summed(8), call("broadcast", root=0), summed(8), summed(16, 2, groups=((0, 2), (1, 3)))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository's configuration."""
    (tmp_path / "config").mkdir()
    (tmp_path / FILE).write_text((ROOT / FILE).read_text())
    (tmp_path / "config/deployments").symlink_to(ROOT / "config/deployments")
    return tmp_path


def config(root: Path, **changes: str) -> dict:
    return {**yaml.safe_load((root / FILE).read_text()), **changes}


def captured(root: Path, *calls: dict, name: str = "calls", ranks: int = 4) -> str:
    path = root / f"{name}.parquet"
    write(CAPTURED_CALLS, step(calls or CALLS, ranks), path)
    return str(path)


def test_each_call_and_each_region_is_a_case_once() -> None:
    ones = [{"kind": "all_reduce_sum", "elements": n} for n in (8, 16)]
    four, strided = {"dtype": "float32", "ranks": 4}, {"dtype": "float32", "ranks": 2, "strided": True}
    assert entries(step(CALLS)) == [{**four, "calls": ones[:1]}, {**strided, "calls": ones[1:]}]
    chain = [{**ones[0]}, {**ones[0], "after": [0]}]
    assert entries(step([summed(8), summed(8, 0)])) == [{**four, "calls": ones[:1]}, {**four, "calls": chain}]


def test_it_is_a_preset_of_a_tree_of_its_own(root: Path) -> None:
    file = captured(root)
    preset_of(file, config(root), root).keep(root)
    settings = read(root / FILE, {"preset": "calls"})
    assert (settings.tree, settings.problems, settings.models) == ("local-calls", ("captured",), ())
    ids = [case.id for case in cases_of(settings, load(ROOT / "config/deployments/local.yaml"), "captured")]
    assert ids == ["captured/n4-all_reduce_sum-8-f32", "captured/n2s2-all_reduce_sum-16-f32"]
    kept = root / "results/local-calls/captured_calls.parquet"
    assert kept.read_bytes() == Path(file).read_bytes()
    (root / "config/captured").mkdir()
    Path(file).rename(root / "config/captured/mine.parquet")
    assert preset_of("mine", config(root), root).own.name == "mine"


@pytest.mark.parametrize(
    ("given", "changes", "said"),
    [
        ("nothing", {}, r"there is no .*config/captured/nothing\.parquet .*has none.*overlayccl capture"),
        ("calls.parquet", {"preset": "smoke"}, "leave `preset` out"),
        ("smoke.parquet", {}, "unlike default, smoke"),
        ("Calls.parquet", {}, "small letters"),
        (
            "calls.parquet",
            {"deployment": "local-2"},
            "on 4 ranks, and deployment local-2 has 2: .*deployment=NAME",
        ),
        ("fences.parquet", {}, "no call with another way: no ways of broadcast"),
        ("text.parquet", {}, "text.parquet: .*Parquet"),
    ],
)
def test_what_does_not_fit_is_one_clear_error_and_leaves_nothing(
    root: Path, given: str, changes: dict, said: str
) -> None:
    for name in ("calls", "smoke", "Calls"):
        captured(root, name=name)
    captured(root, call("broadcast", root=0), name="fences")
    (root / "text.parquet").write_text("no table")
    path = str(root / given) if given.endswith(".parquet") else given
    with pytest.raises(ValueError, match=said):
        preset_of(path, config(root, **changes), root)
    assert not (root / "results").exists()


def test_another_step_does_not_get_the_tree_of_a_finished_one(root: Path) -> None:
    file = captured(root)
    preset_of(file, config(root), root).keep(root)
    kept = root / "results/local-calls" / KEPT
    before = kept.read_bytes()
    captured(root, summed(8), call("broadcast", root=0), summed(8), summed(16, groups=((0, 2), (1, 3))))
    preset_of(file, config(root), root).keep(root)  # the same calls, in other dependencies across groups
    assert kept.read_bytes() != before
    captured(root, summed(9))
    (kept.parent / "preset.yaml").unlink()  # it counts what was captured there
    with pytest.raises(ValueError, match=r"results of another step of that name: .*--output NAME.parquet"):
        preset_of(file, config(root), root)
    without = config(root)
    del without["presets"]["tune"]
    with pytest.raises(ValueError, match="no preset `tune`"):
        preset_of(file, without, root)
