"""One training step through emitted modules and the step driver, on real ranks."""

import json
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.launching.launch import Launch
from overlayccl_core.program.case import Case
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.training.models.llama import Pieces
from tests.on_ranks import launch
from tests.training.step_worker import MODEL

pytestmark = pytest.mark.ranks
RANKS = 4


def site(folder: Path, name: str, case: Case, strategy: str) -> dict[str, Any]:
    """An emitted known way at a site of the step."""
    problem = catalog.build(case)
    program = trace_source(catalog.library_source(case.problem), strategy, problem)
    module = f"{name}_{program.digest}.py"
    (folder / module).write_text(emit(program))
    shapes = [(list(port), list(spec.shape)) for port, spec in problem.outputs.items()]
    return {"site": name, "module": module, "members": case.members(), "shapes": shapes}


def tensor_parallel(
    folder: Path, strategy: str, microbatches: int, replicas: int = 1
) -> list[dict[str, Any]]:
    """The two sites of a tensor-parallel model, backward first."""
    shape = [MODEL.batch, MODEL.sequence, MODEL.width]
    sites = []
    for where in ("entry", "exit"):
        entry = {"microbatches": microbatches, "layers": 2 * MODEL.layers, "shape": shape, "site": where}
        ranks = RANKS // replicas
        case = catalog.case("tp_mlp", entry, ranks=ranks, ranks_per_node=ranks, groups=replicas)
        sites.append(site(folder, where, case, strategy))
    return sites


def sums_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Arms of a tensor-parallel model, by strategy and microbatches."""
    strategies = [
        "developer",
        "merged_over_microbatches",
        "single_graph",
        "reduce_scatter_all_gather",
        "all_to_all_sum",
    ]
    return {
        f"{strategy} {microbatches}": {
            "microbatches": microbatches,
            "replicas": 1,
            "sites": tensor_parallel(folder, strategy, microbatches),
        }
        for strategy in strategies
        for microbatches in ((3, 6) if strategy == "developer" else (3,))
    }


def sums_and_means_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Two replicas of two tensor-parallel ranks: sums inside, gradients averaged across while backward runs."""
    microbatches, replicas = 3, 2
    full = Pieces.full_parameters(MODEL, seed=0)
    sizes = [Pieces.shard(MODEL, name, value, 0, RANKS // replicas).numel() for name, value in full.items()]
    across = catalog.case(
        "grad_ar",
        {"sizes": sizes, "overlap": True},
        ranks=replicas,
        ranks_per_node=replicas,
        groups=RANKS // replicas,
        strided=True,
    )
    return {
        f"{strategy}, {averaging}": {
            "microbatches": microbatches,
            "replicas": replicas,
            "sites": [
                *tensor_parallel(folder, strategy, microbatches, replicas),
                site(folder, "gradients", across, averaging),
            ],
        }
        for strategy in ("developer", "merged_over_microbatches")
        for averaging in ("one_by_one", "flat")
    }


@pytest.fixture(scope="module")
def by_arm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """arm -> what every rank found, all arms in one launch."""
    folder = tmp_path_factory.mktemp("step")
    arms = sums_of(folder) | sums_and_means_of(folder)
    (folder / "arms.json").write_text(json.dumps(list(arms.values())))
    launch(Launch(worker="tests.training.step_worker", folder=folder, ranks=RANKS, names=tuple(arms)))
    by_rank = [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(RANKS)]
    return {name: [one[index] for one in by_rank] for index, name in enumerate(arms)}


def test_gradients_are_those_of_the_unsharded_model_also_where_three_modules_share_a_step(
    by_arm: dict[str, list[dict[str, Any]]],
) -> None:
    assert len(by_arm) == 10
    for name, ranks in by_arm.items():
        assert max(one["error"] for one in ranks) < 1e-5, name


def test_the_developers_memory_does_not_grow_with_the_microbatches(
    by_arm: dict[str, list[dict[str, Any]]],
) -> None:
    held = {name: ranks[0]["peak_bytes"] for name, ranks in by_arm.items()}
    assert held["developer 3"] == pytest.approx(held["developer 6"], rel=0.05)
    assert held["merged_over_microbatches 3"] > 1.1 * held["developer 3"]
    assert held["single_graph 3"] > 1.1 * held["developer 3"]
