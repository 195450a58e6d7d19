"""What a search found is asked by the name that a run prints, replayed from the tables of the tree asked for."""

import shutil
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.cli.main import main
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.problem import Direction
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay, source_base, sources
from overlayccl_core.stages import cases as cases_stage
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from tests.known_cases import case
from tests.rows import row

REPOSITORY = Path(__file__).parents[2]
PROBLEM = "tp_mlp"
CASE = case(PROBLEM)  # not configured: it is known from the tree alone
SKETCH = """from overlayccl_core.program.language import all_reduce


def backwards(io, p):
    for m in range(p.microbatches):
        for l in p.layer_order:
            io.write("total", m, l, all_reduce(io.read("partial", m, l)))
"""
RECIPES = {
    "found-00000001": (
        Direction.FORWARD,
        Recipe(base="single_graph", steps=(("merge", "all_reduce:world:1", "all"),)),
    ),
    "found-00000002": (Direction.BACKWARD, Recipe(base=TransposeOf(recipe=Recipe(base="all_to_all_sum")))),
    "found-00000003": (Direction.FORWARD, Recipe(base=source_base(SKETCH, "backwards"))),
}
TREE = ("--preset", "smoke")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose tree `local-smoke` has three finds."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    home = tmp_path / "results/local-smoke/problems" / PROBLEM
    write(CASES, [cases_stage.row(CASE)], home / "cases.parquet")
    rows = []
    for name, (direction, recipe) in RECIPES.items():
        program = replay(recipe, catalog.in_direction(CASE, direction), sources([SKETCH]))
        known = {
            "value_digest": program.value_digest,
            "program": program.digest,
            "program_json": dumps(program),
        }
        place = {"case": CASE.id, "direction": direction.value, "candidate": name, "search": "offline"}
        rows.append(row(CANDIDATES, **place, **known, recipe=recipe.dumps()))
    write(CANDIDATES, rows, home / "search/offline/candidates.parquet")
    sketch = row(SKETCHES, case=CASE.id, direction="forward", function="backwards", source=SKETCH)
    write(SKETCHES, [sketch], home / "search/offline/sketches.parquet")
    return tmp_path


def asked(root: Path, *arguments: str) -> int:
    return main(["--root", str(root), *arguments, "--problem", PROBLEM])


@pytest.mark.parametrize("name", RECIPES)
def test_a_find_is_meant_at_the_case_and_in_the_direction_of_its_own(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for command in ("prove", "trace"):
        assert asked(root, command, name, *TREE) == 0
        said = capsys.readouterr().out
        assert CASE.id in said and ("backward" in said) == (RECIPES[name][0] is Direction.BACKWARD)
        assert "proven" in said or command == "trace"


def test_a_find_is_replayed_at_another_case(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = '{"microbatches": 2, "layers": 2, "shape": [2, 2, 2]}'
    assert asked(root, "trace", "found-00000001", *TREE, "--case-json", two) == 0
    assert "2: 2 all_reduce of 64B over 4" in capsys.readouterr().out
    one = '{"microbatches": 1, "layers": 1, "shape": [2, 2, 2]}'
    assert asked(root, "trace", "found-00000001", *TREE, "--case-json", one) == 1
    assert "this Case: step 1 of 1" in capsys.readouterr().err


def test_a_name_that_no_search_gave_has_one_message(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(root, "prove", "found-0000001", *TREE) == 2
    said = capsys.readouterr().err
    assert "none of the 3 finds" in said and "'found-00000001'" in said
    assert asked(root, "prove", "found-00000001") == 2
    said = capsys.readouterr().err
    assert "no search of tp_mlp" in said
    assert "results/local/problems/tp_mlp/search/offline/candidates.parquet\n" in said


def test_a_find_of_another_release_is_not_taken_for_itself(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "overlayccl_core.cli.finds.replay", lambda _, problem, *more: catalog.developer_program(problem)
    )
    assert asked(root, "prove", "found-00000001", *TREE) == 2
    said = capsys.readouterr().err
    assert "by another release" in said and "parquet --force" in said and "preset=smoke" in said
