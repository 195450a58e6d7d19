"""How long the phases of a run took."""

import os
from pathlib import Path

from overlayccl_core.tables import attempts
from tests.took import took
from tests.workflow.repository import ROOT, python
from workflow_scripts.phases import phases, text


def ended(folder: Path, name: str, seconds: float) -> Path:
    took(folder / f"{name}.log", seconds)
    return attempts.file_of(folder / f"{name}.log")


def test_jobs_of_a_rule_are_one_phase_and_the_slowest_comes_first(tmp_path: Path) -> None:
    names = {"bench-tp_mlp": 60.2, "bench-grad_ar": 30.0, "probe": 170.0, "search-tp_mlp-offline": 5.0}
    seconds = phases(ended(tmp_path, name, seconds) for name, seconds in names.items())
    assert list(seconds) == ["probe", "bench", "search"]
    assert seconds["bench"] == {"grad_ar": 30.0, "tp_mlp": 60.2}
    shown = text(seconds)
    assert "bench         90   grad_ar 30, tp_mlp 60" in shown and "probe        170" in shown


def test_jobs_of_earlier_runs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    old = ended(tmp_path / "logs", "probe", 170.0)
    ended(tmp_path / "logs", "fit", 2.0)
    os.utime(old, (1000, 1000))
    done = python(ROOT, "-m", "workflow_scripts.phases", "--results", str(tmp_path), "--since", "2000")
    assert done.returncode == 0, done.stderr
    assert "fit" in done.stdout and "probe" not in done.stdout
    nothing = python(ROOT, "-m", "workflow_scripts.phases", "--results", str(tmp_path), "--since", str(2**40))
    assert (nothing.returncode, nothing.stdout) == (0, "")


def test_a_job_without_its_tables_is_no_phase(tmp_path: Path) -> None:
    log = tmp_path / "probe.log"
    attempts.begin(log, 100.0)
    assert phases([attempts.file_of(log)]) == {}
    attempts.end(log, 130.0, made=False)
    assert phases([attempts.file_of(log)]) == {}
