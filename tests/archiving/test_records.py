"""Each file's record is looked at, and each file that no job made."""

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from overlayccl_core.archiving.again import Planned, told
from overlayccl_core.archiving.findings import Outcome
from overlayccl_core.archiving.jobs import Job, jobs_of
from overlayccl_core.archiving.recorded import _against, _logged, _nobodys
from overlayccl_core.tables import records
from tests.archiving.test_crate import SAID
from tests.tables.test_records import TOLD

TREE = "results/local"
CODE = "0123456789abcdef"
OUTPUTS = (f"{TREE}/fidelity.html", f"{TREE}/theta.html")
INPUTS, LOG = (f"{TREE}/probes.parquet",), (f"{TREE}/logs/fit.log",)
COMMAND = "python -m workflow_scripts.fit"
BEFORE = Job(
    name="fit",
    rule="fit",
    command=COMMAND,
    code=CODE,
    parameters=(CODE, 4),
    inputs=INPUTS,
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
    inputs=INPUTS,
    outputs=OUTPUTS,
    log=LOG,
    parameters=(repr(CODE), "4"),
    plugins=(),
    alone=False,
)


def outcome(*jobs: Job, plan: Planned = PLANNED) -> tuple[Outcome, str]:
    ((found, job),) = told([plan], jobs)
    assert job is plan
    return found.outcome, found.message


def test_what_was_told_as_planned_is_exact_by_this_code_and_within_by_another() -> None:
    assert outcome(BEFORE)[0] is Outcome.EXACT
    other = replace(BEFORE, code="f" * 16, parameters=("f" * 16, 4))
    assert outcome(other) == (Outcome.WITHIN, "its code is not that of this release")


@pytest.mark.parametrize("parameters", [(4,), (CODE, "f" * 16, 4)], ids=["none", "two"])
def test_a_record_has_the_digest_of_one_code(parameters: tuple[Any, ...]) -> None:
    struck = replace(BEFORE, code=CODE if CODE in parameters else "", parameters=parameters)
    assert outcome(struck) == (
        Outcome.WRONG,
        "its record does not have the digest of one code that made it",
    )


def test_every_file_of_a_job_has_the_same_record() -> None:
    first, second = (replace(BEFORE, outputs=(file,)) for file in OUTPUTS)
    assert outcome(first)[0] is Outcome.WRONG
    assert f"no record tells how {OUTPUTS[1]} was made" in outcome(first)[1]
    found, message = outcome(first, replace(second, inputs=("config/config.yaml",)))
    assert found is Outcome.WRONG and "was made otherwise than" in message


def test_records_that_differ_are_of_several_jobs(tmp_path: Path) -> None:
    for file, changed in zip(OUTPUTS, ({}, {"input": ["config/config.yaml"]}), strict=True):
        place = tmp_path / records.place_of(Path(file))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(records.json.dumps(TOLD | changed))
    assert [job.outputs for job in jobs_of(tmp_path, OUTPUTS, (), 1)] == [(file,) for file in OUTPUTS]
    place.write_text(records.json.dumps(TOLD | {"endtime": 1_700_000_013}))  # each file has its own time
    assert [job.outputs for job in jobs_of(tmp_path, OUTPUTS, (), 1)] == [OUTPUTS]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"inputs": ("config/config.yaml",)}, "config/config.yaml among what it read"),
        ({"inputs": ()}, f"{INPUTS[0]} among what it read"),
        ({"rule": "price"}, "its record is of price"),
        ({"name": "bench-tp_mlp"}, "with the log of bench-tp_mlp"),
        ({"outputs": (*OUTPUTS, f"{TREE}/zero.html")}, "zero.html is said to be of it, too"),
    ],
)
def test_a_record_that_is_not_of_the_planned_job_is_named(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    assert not list(_against(tmp_path, SAID, PLANNED, BEFORE))
    (why,) = _against(tmp_path, SAID, PLANNED, replace(BEFORE, **changed))
    assert named in why


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("logs/fit.log", None),
        ("logs/fit.tsv", None),
        ("logs/fit.failure-0/launch.log", None),
        ("logs/fit.failure-12/rank-3.error", None),
        ("logs/bench-tp_mlp.log", Outcome.COULD_NOT),  # of a job that failed, and that nobody asks for now
        ("logs/bench.failure-0/launch-1.log", Outcome.COULD_NOT),
        ("logs/fit.py", Outcome.WRONG),
        ("logs/__init__.py", Outcome.WRONG),
        ("logs/fit.failure-0/evil.py", Outcome.WRONG),
        ("logs/more/fit.log", Outcome.WRONG),
        (f"problems/tp_mlp/search/mine/answers/{'0f' * 32}.json", None),
        (f"problems/tp_mlp/search/mine/answers/{'0f' * 32}.asked-0123abcd.json", None),
        ("problems/tp_mlp/search/mine/answers/evil.py", Outcome.WRONG),
        ("deploy/fast.py", Outcome.WRONG),
    ],
)
def test_what_is_no_output_is_a_log_of_a_job_or_an_answer_or_wrong(name: str, found: Outcome | None) -> None:
    one = _nobodys(PurePosixPath(TREE, name), set(_logged([PLANNED])))
    assert (one and one.outcome) is found
