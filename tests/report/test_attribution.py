"""Whose the gain is, in a step with several Problems."""

from pathlib import Path

from overlayccl_core.report import training
from overlayccl_core.report.blocks import TableBlock
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.steps import STAMPS, STEPS
from tests.report.fixture_models import LAUNCHES, _stamp, _steps
from tests.report.fixture_rows import put

MS = {"developer": 240, "only_grad_ar": 120, "finalist_1": 100}


def whose(folder: Path, arms: dict[str, str]) -> dict[str, str]:
    """What the report says of each arm's step. arms: arm -> the one as which it was trained."""
    rows = [
        _steps(STEPS, "two", 4, arm, "timed", launch, number, 1e3 * MS[arm])
        for number, arm in enumerate(arm for arm, ran_as in arms.items() if arm == ran_as)
        for launch in range(LAUNCHES)
    ]
    put(STEPS, rows, folder / "train/two/steps.parquet")
    stamps = [_stamp(STAMPS, "two", 4, arm, ran_as) for arm, ran_as in arms.items()]
    put(STAMPS, stamps, folder / "train/two/stamps.parquet")
    tables = [
        b for b in training.blocks(Tree(path=folder)) if isinstance(b, TableBlock) and "whose" in b.title
    ]
    assert all(b.title.startswith("two, 4 microbatches") for b in tables)
    return {where: said for table in tables for where, said in table.rows}


def test_each_problem_has_its_part_of_the_gain_with_an_interval(tmp_path: Path) -> None:
    said = whose(
        tmp_path,
        {
            "developer": "developer",
            "only_grad_ar": "only_grad_ar",
            "only_pp_send_recv": "developer",
            "finalist_1": "finalist_1",
        },
    )
    assert list(said) == ["where grad_ar occurs", "where pp_send_recv occurs", "everywhere"]
    alone, same, everywhere = said.values()
    assert alone.startswith(("2.0", "1.9")) and ".." in alone and alone.endswith("faster")
    assert same.startswith("1.00")  # the first finalist there is the developer's own call
    assert everywhere.startswith(("2.4", "2.3"))


def test_a_step_with_one_problem_has_no_such_table(tmp_path: Path) -> None:
    assert not whose(tmp_path, {"developer": "developer", "finalist_1": "finalist_1"})
