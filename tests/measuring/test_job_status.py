"""What became of a job, and purposes of steps, are spelled once: tables, gates and the report take them."""

import ast
import re
from pathlib import Path

from overlayccl_core.gates.bench import FAILED
from overlayccl_core.measuring.job_status import MEASURED, OF_A_CANDIDATE, OF_A_SKETCH, OF_AN_ARM, JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.steps import STEPS

PACKAGE = Path(__file__).parents[2] / "overlayccl_core"
# Its home, and the enumerations whose names of other things are the same words.
MAY_SPELL = {"measuring/job_status.py", "measuring/purposes.py", "gates/verdict.py"}


def test_no_other_file_spells_a_status() -> None:
    spelled = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}: {node.value!r}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.relative_to(PACKAGE).as_posix() not in MAY_SPELL
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in set(JobStatus)
    ]
    assert not spelled


def test_the_table_of_steps_has_the_purposes_and_nobody_writes_them_out() -> None:
    compared = re.compile(rf"purpose\W{{1,4}}[!=]= [\"'](?:{'|'.join(Purpose)})")
    [column] = [column for column in STEPS.columns if column.name == "purpose"]
    assert column.values == tuple(Purpose)
    assert not [file for file in PACKAGE.rglob("*.py") if compared.search(file.read_text())]


def test_a_job_is_measured_or_the_gates_know_why_it_is_out() -> None:
    known = {*MEASURED, JobStatus.RIGHT, *FAILED}
    assert {*OF_A_CANDIDATE, *OF_A_SKETCH, *OF_AN_ARM} == set(JobStatus) == known
