"""attention on real ranks: every known way against its meaning, some deployed beside attention to the whole."""

import json
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist.backend import emit, run_once
from overlayccl_core.backends.trials import Trial
from overlayccl_core.gates.on_ranks import inputs_of, wrong_values
from overlayccl_core.gates.small_values import itself
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.numerics import REORDERED_TOLERANCE, NumericsClass, tolerance
from tests.emit.deployed_modules import case_of_ways, way, write
from tests.known_cases import programs
from tests.on_ranks import here, launch

pytestmark = pytest.mark.ranks
RANKS, HEADS, SEQUENCE, WIDTH = 4, 4, 12, 5
CASE = catalog.case(
    "attention",
    {"heads": HEADS, "sequence": SEQUENCE, "head_dim": WIDTH},
    ranks=RANKS,
    ranks_per_node=RANKS,
)
FORWARD, BACKWARD = (programs(problem) for problem in catalog.directions(CASE))


def test_every_known_way_gives_what_it_means(tmp_path: Path) -> None:
    every = {**FORWARD, **BACKWARD}
    inputs = {p.problem.direction: inputs_of(p.problem, 3) for p in every.values()}
    trials = [
        Trial(job=Job(key=name, program=p, source=emit(p)), inputs=inputs[p.problem.direction])
        for name, p in every.items()
    ]
    seen_of = run_once(here(RANKS), tmp_path, trials, may_refuse=False)
    for (name, program), trial, seen in zip(every.items(), trials, seen_of, strict=True):
        assert not seen.error and not seen.overwritten, name
        allowed = tolerance(NumericsClass.REORDERED, program)
        assert not wrong_values(itself(program), allowed, trial.inputs, seen.outputs), name


PAIRS = (
    ("gathered", "gathered_and_scattered"),
    ("ring", "ring_of_gradients"),
    ("ulysses", "ulysses_backward"),
    ("ring_joined", "joined_and_scattered"),
)


def test_deployed_ones_give_what_the_whole_sequence_gives_on_one_device(tmp_path: Path) -> None:
    plain = way("plain", FORWARD["gathered"], BACKWARD["gathered_and_scattered"])
    scenarios = []
    for forward, backward in PAIRS:
        write(tmp_path, forward, [case_of_ways(way("tried", FORWARD[forward], BACKWARD[backward]), plain)])
        shape = {"heads": HEADS, "sequence": SEQUENCE, "width": WIDTH}
        scenarios.append((f"{forward}.py", {"case": CASE.id, **shape}))
    (tmp_path / "scenarios.json").write_text(json.dumps(scenarios))
    names = tuple(forward for forward, _ in PAIRS)
    launch(Launch(worker="tests.emit.attention_worker", folder=tmp_path, ranks=RANKS, names=names))
    for rank in range(RANKS):
        for name, seen in zip(names, json.loads((tmp_path / f"seen-{rank}.json").read_text()), strict=True):
            for what in ("out", "q", "k", "v"):
                assert seen["errors"][what] < 1e-5, (name, what, seen)
            assert seen["kept"] == ["q", "k", "v", "out", "lse"]
            assert "modified by an inplace operation" in seen["changed"]
            assert max(seen["selftest"]) < REORDERED_TOLERANCE
