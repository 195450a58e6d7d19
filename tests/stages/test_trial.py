"""Sketches on real ranks, run once: what is right, what fails and why, and that a second round asks about that."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.asking.clean import without_places
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.evidence.mended import failed_sketches
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, source_base
from overlayccl_core.stages import trial
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.table import write
from overlayccl_core.tables.trials import TRIALS
from tests.known_cases import case
from tests.rows import row
from tests.timing.batches import deployment, silent

SOURCE = catalog.library_source("uniform_a2a")
NAMES = ("gather_slice", "permute_ring")


def candidate(program: Program, name: str, recipe: Recipe, **more: Any) -> dict[str, Any]:
    fields = {
        "case": program.problem.case.id,
        "direction": program.problem.direction.value,
        "candidate": name,
        "search": "asks",
        "origin": "sketch",
        "recipe": recipe.dumps(),
        "numerics": "exact",
        "program": program.digest,
        "value_digest": program.value_digest,
        "program_json": dumps(program),
        "legality": "pass",
        "equivalence": "pass",
    }
    return row(CANDIDATES, **fields | more)


def found(path: Path) -> pl.DataFrame:
    """Two sketches forward, one backward too; what rules made, and what is wrong, is not run."""
    problem = catalog.build(case("uniform_a2a", ranks=2))
    backward = catalog.backward(problem.case)
    rows = []
    for name in NAMES:
        program = trace_source(SOURCE, name, problem)
        recipe = Recipe(base=source_base(SOURCE, name))
        rows.append(candidate(program, name, recipe))
    turned = Recipe(base=TransposeOf(recipe=recipe))
    rows += [
        candidate(transpose(program, backward), "turned", turned),
        candidate(program, "ruled", recipe, origin="rule"),
        candidate(program, "wrong", recipe, equivalence="fail"),
    ]
    return write(CANDIDATES, rows, path / "candidates.parquet")


def refusing(program: Program) -> str:
    """A module whose permutes the library does not take."""
    source = emit(program)
    permutes = any(x.kind is Kind.COLLECTIVE_PERMUTE for x in program.collectives)
    refusal = r"def \1(*_):\n    raise ValueError('no permutes here: /opt/gloo/pair.cc')\n\n\ndef _\1("
    return re.sub(r"def (forward|backward)\(", refusal, source) if permutes else source


@pytest.mark.ranks
def test_what_was_sketched_is_run_once_and_says_how_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = found(tmp_path)
    monkeypatch.setattr(backend, "emit", refusing)
    rows = trial.run(deployment(2), "asks", candidates, tmp_path / "partial", progress=silent)
    trials = write(TRIALS, rows, tmp_path / "trials.parquet")
    assert trials.select("candidate", "direction", "status").rows() == [
        ("gather_slice", "forward", "right_values"),
        ("permute_ring", "forward", "raised"),
        ("turned", "backward", "raised"),
    ]
    assert "no permutes here" in trials["message"][1] and trials["message"][0] == ""
    written = [row(SKETCHES, direction="forward", function=n, source=SOURCE, rationale="why") for n in NAMES]
    [failed] = failed_sketches(trials, candidates, write(SKETCHES, written, tmp_path / "sketches.parquet"))
    assert failed.sketch.function == "permute_ring" and failed.sketch.direction is Direction.FORWARD
    [forward, backward] = failed.where
    assert " forward: raised: " in forward and " backward: raised: " in backward
    assert "pair.cc" in trials["message"][1]
    assert "; see " not in forward and "pair.cc" not in forward  # nothing of this machine goes to a model


def test_no_host_file_or_address_goes_to_a_language_model() -> None:
    said = "node trn-17.internal: rank 2 raised OSError: [/w/gloo/pair.cc:553] by peer [10.3.4.5]:4711, 1/4 at 0.5"
    assert without_places(said) == "rank 2 raised OSError: [(a file):553] by peer (an address), 1/4 at 0.5"


def test_where_no_sketch_is_proven_no_ranks_start(tmp_path: Path) -> None:
    candidates = found(tmp_path).filter(pl.col("origin") != "sketch")
    said: list[str] = []
    assert trial.run(deployment(2), "asks", candidates, tmp_path, progress=said.append) == []
    assert ["no sketch is proven" in line for line in said] == [True]


def test_all_that_ran_leaves_nothing_to_mend(tmp_path: Path) -> None:
    candidates = found(tmp_path)
    rows = [
        row(TRIALS, **{key: one[key] for key in trial.KEY}, status="right_values")
        for one in candidates.to_dicts()
    ]
    nothing = write(SKETCHES, [], tmp_path / "sketches.parquet")
    assert failed_sketches(write(TRIALS, rows, tmp_path / "trials.parquet"), candidates, nothing) == ()
