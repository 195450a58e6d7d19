"""dist_ce on real ranks: every known way against its meaning, some deployed in a tiny sharded model."""

import json
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.torchdist.backend import emit, run_once
from overlayccl_core.backends.trials import Trial
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.emit.deployed_case import DeployedCase
from overlayccl_core.gates.on_ranks import inputs_of, wrong_values
from overlayccl_core.gates.small_values import itself
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.program import Program
from tests.emit.deployed_modules import case_of_ways, way, write
from tests.known_cases import programs
from tests.on_ranks import launch

pytestmark = pytest.mark.ranks
RANKS, TOKENS, VOCABULARY = 4, 6, 40
CASE = catalog.case(
    "dist_ce", {"tokens": TOKENS, "vocabulary": VOCABULARY, "range": 60}, ranks=RANKS, ranks_per_node=RANKS
)
FORWARD, BACKWARD = (programs(problem) for problem in catalog.directions(CASE))


def test_every_known_way_gives_what_it_means(tmp_path: Path) -> None:
    programs = {**FORWARD, **BACKWARD}
    inputs = {p.problem.direction: inputs_of(p.problem, 3) for p in programs.values()}
    trials = [
        Trial(job=Job(key=name, program=p, source=emit(p)), inputs=inputs[p.problem.direction])
        for name, p in programs.items()
    ]
    here = Deployment(
        name="here", backend="torchdist", library="gloo", ranks=RANKS, ranks_per_node=RANKS,
        tiers=(Tier(name="node", ranks=RANKS),), memory_budget_bytes=2**30,
    )  # fmt: skip
    assert len(programs) >= 6
    for (name, program), trial, seen in zip(
        programs.items(), trials, run_once(here, tmp_path, trials, may_refuse=False), strict=True
    ):
        assert not seen.error and not seen.overwritten, name
        allowed = tolerance(NumericsClass.REORDERED, program)
        assert not wrong_values(itself(program), allowed, trial.inputs, seen.outputs), name


def deployed(forward: Program, backward: Program) -> DeployedCase:
    plain = way("plain", FORWARD["three_all_reduce"], BACKWARD["softmax_minus_one_hot"])
    return case_of_ways(way("tried", forward, backward), plain)


def test_deployed_ones_give_losses_and_gradients_of_the_unsharded_model(tmp_path: Path) -> None:
    scenarios = []
    for number, (name, forward) in enumerate(FORWARD.items()):
        backward = list(BACKWARD.values())[number % len(BACKWARD)]
        write(tmp_path, name, [deployed(forward, backward)])
        scenarios.append((f"{name}.py", {"case": CASE.id, "tokens": TOKENS, "vocabulary": VOCABULARY}))
    (tmp_path / "scenarios.json").write_text(json.dumps(scenarios))
    names = tuple(FORWARD)
    launch(Launch(worker="tests.emit.entropy_worker", folder=tmp_path, ranks=RANKS, names=names))
    for rank in range(RANKS):
        for name, seen in zip(names, json.loads((tmp_path / f"seen-{rank}.json").read_text()), strict=True):
            for what in ("losses", "mean", "hidden", "words", "alone"):
                assert seen[what] < 1e-4, (name, what, seen)
            assert seen["shapes"] == [[TOKENS // 2, 2], [1], [TOKENS], [1]]
            assert "targets has ids from" in seen["refused"] and "0 to 39 are allowed" in seen["refused"]
            assert "logits has values from" in seen["wide"] and "-60 to 60 are allowed" in seen["wide"]
            for told in seen["unlike"]:
                assert ", with ids " in told and "rank 1 runs " in told, told
            assert max(seen["selftest"]) < 1e-5
