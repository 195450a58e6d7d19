"""Nothing of an archive is run, no plug-in that lies in it; and each job was told what the configuration says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import loader
from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.archiving.jobs import JobRecord, jobs_of
from overlayccl_core.archiving.replay import Planned, _python, told
from overlayccl_core.tables import records
from tests.tables.test_records import TOLD

TREE = "results/local"
CODE = "0123456789abcdef"
OUTPUTS = (f"{TREE}/fidelity.html", f"{TREE}/theta.html")
LOG, COMMAND = (f"{TREE}/logs/fit.log",), "python -P -m workflow_scripts.stage fit"
BEFORE = JobRecord(
    name="fit",
    rule="fit",
    command=COMMAND,
    code=CODE,
    parameters=(CODE, 4),
    inputs=(),
    outputs=OUTPUTS,
    log=LOG,
    started=1.0,
    ended=2.0,
    nodes=0,
)
PLANNED = Planned(
    target="all",
    rule="fit",
    command=COMMAND,
    outputs=OUTPUTS,
    log=LOG,
    parameters=(repr(CODE), "4"),
    alone=False,
)


def outcome(*jobs: JobRecord, plan: Planned = PLANNED, folder: Path = Path()) -> tuple[CheckOutcome, str]:
    ((found, job),) = told(folder, [plan], jobs)
    assert job is plan
    return found.outcome, found.message


def test_what_was_told_as_planned_is_exact_by_this_code_and_within_by_another() -> None:
    assert outcome(BEFORE)[0] is CheckOutcome.EXACT
    other = replace(BEFORE, code="f" * 16, parameters=("f" * 16, 4))
    assert outcome(other)[0] is CheckOutcome.WITHIN and "its code" in outcome(other)[1]


def test_what_was_told_otherwise_is_wrong_but_for_other_targets() -> None:
    other = replace(BEFORE, parameters=(CODE, 5))
    assert outcome(other)[0] is CheckOutcome.WRONG
    assert outcome(other, plan=replace(PLANNED, target="longrun"))[0] is CheckOutcome.COULD_NOT
    found, message = outcome(replace(BEFORE, outputs=OUTPUTS[1:]))
    assert found is CheckOutcome.WRONG and f"no record tells how {OUTPUTS[0]} was made" in message


def test_a_sidecar_has_the_command_of_its_job(tmp_path: Path) -> None:
    """The page has the settings of what was measured from there."""
    (tmp_path / TREE).mkdir(parents=True)
    sidecar = f"{TREE}/bench.sidecar.json"
    plan = replace(PLANNED, outputs=(*OUTPUTS, sidecar), command=f"{COMMAND} --rounds 5 && touch done")
    for rounds, found in (("5", CheckOutcome.EXACT), ("6", CheckOutcome.WRONG)):
        command = [*COMMAND.split(), "--rounds", rounds]
        (tmp_path / sidecar).write_text(json.dumps({"command": command}))
        assert outcome(BEFORE, plan=plan, folder=tmp_path)[0] is found


def test_records_that_differ_are_of_several_jobs(tmp_path: Path) -> None:
    changes: tuple[dict[str, Any], ...] = ({}, {"input": ["config/config.yaml"]})
    for file, changed in zip(OUTPUTS, changes, strict=True):
        place = tmp_path / records.record_path(Path(file))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(TOLD | changed))
    assert [job.outputs for job in jobs_of(tmp_path, OUTPUTS, (), 1)] == [(file,) for file in OUTPUTS]
    place.write_text(json.dumps(TOLD | {"endtime": 1_700_000_013}))  # each file has its own time
    assert [job.outputs for job in jobs_of(tmp_path, OUTPUTS, (), 1)] == [OUTPUTS]


def test_of_an_archives_plug_ins_only_strategies_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(loader.VARIABLE, raising=False)
    folder = tmp_path / "overlayccl-local"
    for part in ("backends/evil", "problems", "strategies"):
        (folder / "plugins" / part).mkdir(parents=True)
    (folder / "plugins/backends/evil/backend.py").write_text("raise SystemExit('it ran')\n")
    (folder / "plugins/strategies/mine.py").write_text('"""Mine."""\n')
    words = "from pathlib import Path; from overlayccl_core import loader; loader.use_project(Path()); "
    words += "print(loader.names('backends'), loader.names('strategies'))"
    done = _python(folder, ["-c", words], "")
    assert done.returncode == 0, done.stderr
    assert "evil" not in done.stdout and "'mine'" in done.stdout
