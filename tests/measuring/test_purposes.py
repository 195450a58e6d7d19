"""Purposes of steps stand once."""

import re

from overlayccl_core.loader import ROOT
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.steps import STEPS

COMPARED = re.compile(rf"purpose\W{{1,4}}[!=]= [\"'](?:{'|'.join(Purpose)})")


def test_the_table_of_steps_has_them_and_nobody_writes_them_out() -> None:
    [column] = [column for column in STEPS.columns if column.name == "purpose"]
    assert column.values == tuple(Purpose)
    written = [file for file in ROOT.rglob("*.py") if COMPARED.search(file.read_text())]
    assert not written
