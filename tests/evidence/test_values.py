"""Values on real ranks of Programs whose inputs are too many for one process: atoms stand for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist.backend import emit, run_once
from overlayccl_core.backends.trials import Observed, Trial, observed
from overlayccl_core.evidence.values import ProvenJob, value_check
from overlayccl_core.gates import small_values
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program
from tests.known_cases import case, programs
from tests.on_ranks import here, meaning

FEW = 2**9


def proven(program: Program, name: str, source: str | None = None) -> ProvenJob:
    made = emit(program) if source is None else source
    return ProvenJob(job=Job(key=name, program=program, source=made), numerics=NumericsClass.REORDERED)


def of_all_problems(**places: int) -> list[ProvenJob]:
    listed = []
    for name in loader.names("problems"):
        for problem in catalog.directions(case(name, **places)):
            found = programs(problem)
            few = {*list(found)[:3], "one_by_one"} & {*found}
            listed += [proven(found[way], f"{problem.name} {way}") for way in sorted(few)]
    return listed


@pytest.mark.ranks
@pytest.mark.parametrize(
    "places", [{}, {"ranks": 2, "groups": 2, "ranks_per_node": 2}], ids=["one", "groups"]
)
def test_right_modules_pass_and_wrong_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: dict[str, int]
) -> None:
    monkeypatch.setattr(small_values, "MOST_WORDS", FEW)
    listed = of_all_problems(**places)
    [victim] = [one for one in listed if one.job.key == "grad_ar one_by_one"]
    right = victim.job.source
    line = next(line for line in right.splitlines() if "Write(" in line)
    value = line.rpartition(",")[2].strip(" )")
    wrong = right.replace(line, line.replace(f"{value})", f"{value}.roll(1))"))
    assert wrong != right
    listed.append(proven(victim.job.program, "rolled", wrong))
    check = value_check(listed)
    trials = [check.trial(one.job) for one in listed]
    assert sum(bool(trial.input_tiles) for trial in trials) >= len(trials) / 3
    unseen = []
    for trial, seen in zip(trials, run_once(here(4), tmp_path, trials), strict=True):
        assert not seen.error and not seen.overwritten, trial.job.key
        try:
            said = check.wrong(trial, seen)
        except TooLarge:
            unseen.append(trial.job.key)
            continue
        assert bool(said) == (trial.job.key == "rolled"), (trial.job.key, said)
    assert len(unseen) < len(trials) / 4, unseen


def told(trial: Trial) -> Observed:
    """What ranks that compute as NumPy does would tell."""
    tiles = trial.input_tiles
    large: Any = {p: np.stack(list(map(tiles[p].spread, x))) for p, x in trial.inputs.items()}
    return observed(meaning(trial.job.program, large), trial.output_tiles)


def test_what_can_not_be_worked_out_runs_and_is_said_not_to_have_been_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(small_values, "MOST_WORDS", 3)
    [problem, *_] = catalog.directions(case("grad_ar"))
    one = proven(programs(problem)["one_by_one"], "one_by_one", "")
    check = value_check([one])
    trial = check.trial(one.job)
    assert all(tiles.atoms == 1 for tiles in trial.input_tiles.values())
    with pytest.raises(TooLarge, match="atoms on all ranks"):
        check.wrong(trial, told(trial))
