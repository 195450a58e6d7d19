"""Each file that no job made is looked at: it is a log, an answer that was asked for, or it is named."""

from pathlib import Path, PurePosixPath

import polars as pl
import pytest

from overlayccl_core.archiving.files import _logged, _nobodys, files
from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.configuration.presets import OwnPreset
from tests.archiving.test_crate import SAID
from tests.archiving.test_replay import BEFORE, PLANNED, TREE

KNOWN, INVENTED = "0f" * 32, "1e" * 32
SEARCH, PROBING = "problems/tp_mlp/search/mine", "probing/mine"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where two searches have asked one question each, and one has none."""
    for search, table in ((SEARCH, "calls"), (PROBING, "probe_calls")):
        (tmp_path / TREE / search / "answers").mkdir(parents=True)
        pl.DataFrame({"digest": [KNOWN]}).write_parquet(tmp_path / TREE / search / f"{table}.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("logs/fit.log", CheckOutcome.EXACT),
        ("logs/fit.tsv", CheckOutcome.EXACT),
        ("logs/fit.attempts", CheckOutcome.EXACT),
        ("logs/fit.failure-0/launch.log", CheckOutcome.EXACT),
        ("logs/fit.failure-12/rank-3.error", CheckOutcome.EXACT),
        (
            "logs/bench-tp_mlp.log",
            CheckOutcome.COULD_NOT,
        ),  # of a job that failed, and that nobody asks for now
        ("logs/bench.failure-0/launch-1.log", CheckOutcome.COULD_NOT),
        ("logs/fit.py", CheckOutcome.WRONG),
        ("logs/__init__.py", CheckOutcome.WRONG),
        ("logs/fit.failure-0/evil.py", CheckOutcome.WRONG),
        ("logs/more/fit.log", CheckOutcome.WRONG),
        (f"{SEARCH}/answers/{KNOWN}.json", CheckOutcome.EXACT),
        (f"{SEARCH}/answers/{KNOWN}.asked-0123abcd.json", CheckOutcome.EXACT),
        (f"{PROBING}/answers/{KNOWN}.json", CheckOutcome.EXACT),
        (
            f"{SEARCH}/answers/{INVENTED}.json",
            CheckOutcome.COULD_NOT,
        ),  # or of an earlier run, or of `overlayccl ask`
        (f"problems/tp_mlp/search/offline/answers/{KNOWN}.json", CheckOutcome.COULD_NOT),  # which asks nobody
        (f"{SEARCH}/answers/evil.py", CheckOutcome.WRONG),
        ("deploy/fast.py", CheckOutcome.WRONG),
        ("deploy/preset.yaml", CheckOutcome.WRONG),
    ],
)
def test_what_is_no_output_is_a_log_of_a_job_or_an_answer_or_named(
    folder: Path, name: str, found: CheckOutcome
) -> None:
    one = _nobodys(folder, PurePosixPath(TREE, name), set(_logged([PLANNED])))
    assert one.outcome is found and bool(one.message) is (found is not CheckOutcome.EXACT)


def test_a_run_s_own_preset_is_the_one_that_its_tree_is_named_after(folder: Path) -> None:
    own = OwnPreset.told_apart("local", "tune", {"problems": ["tp_mlp"], "bench": {"seconds": 3.0}})
    (folder / own.path).parent.mkdir(parents=True)
    for text, found in ((own.text, CheckOutcome.EXACT), (own.text + "models: [nano]\n", CheckOutcome.WRONG)):
        (folder / own.path).write_text(text)
        assert _nobodys(folder, PurePosixPath(own.path), set()).outcome is found


def test_what_a_job_made_is_no_concern_here(folder: Path) -> None:
    for name in (*BEFORE.outputs, f"{TREE}/more.html"):
        (folder / name).write_text("")
    found = {one.subject for one in files(folder, SAID, [PLANNED], [BEFORE])}
    assert f"{TREE}/more.html" in found and not set(BEFORE.outputs) & found
