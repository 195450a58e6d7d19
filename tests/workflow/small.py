"""The smallest configuration in which every rule has something to do."""

from typing import Any

OTHER_PROBLEMS = ("uniform_a2a", "grad_ar")  # whose known ways are traced after the run
SMALL: dict[str, Any] = {
    "problems": ["tp_mlp"],
    "models": ["tiny"],
    "cases": {
        "tp_mlp": [{"microbatches": 2, "layers": 2, "shape": [1, 4, 8]}],
        "uniform_a2a": [{"payload": "1KiB"}],
        "grad_ar": [{"model": "llama", "width": 8, "hidden": 16, "layers": 1, "vocabulary": 16}],
    },
    "probe": {
        "seconds": 12,
        "minimum_rounds": 2,
        "maximum_rounds": 3,
        "rounds_of_fitted": 2,
        "mixed": 12,
        "mixed_seed": 1,
        "heldout": 6,
    },
    "bench": {"seconds": 3, "minimum_rounds": 2, "maximum_rounds": 4},
    "fit": {"bootstraps": 4, "ridge": 0.02, "seed": 0},
    "confirm": {
        "launches": 2,
        "seconds": 3,
        "minimum_rounds": 2,
        "maximum_rounds": 3,
        "step_seconds": 2,
        "apart": True,
        "minimum_steps": 2,
        "maximum_steps": 3,
    },
    "train": {
        "launches": 2,
        "seconds": 3,
        "minimum_steps": 2,
        "maximum_steps": 4,
        "loss_steps": 8,
        "loss_seeds": 2,
    },
    "longrun": {"steps": 10, "seeds": 2},
    "ablations": {
        "problems": ["tp_mlp"],
        "searches": ["offline@0", "offline@1"],
        "begin": "developer",
        "seeds": 1,
    },
    "probing": {"turns": 3, "probes": 12, "seconds": 5, "draws": 2},
    "scopes": {"seconds": 3, "minimum_rounds": 2, "maximum_rounds": 3},
    "decompose": {
        "seconds": 1,
        "minimum_launches": 1,
        "maximum_launches": 1,
        "half_width": 0.05,
        "minimum_steps": 2,
        "maximum_steps": 3,
    },
    "tune": {
        "seconds": 3,
        "minimum_rounds": 2,
        "maximum_rounds": 4,
        "again": {"seconds": 3, "minimum_rounds": 2, "maximum_rounds": 6},
        "calls": [{"calls": [{"kind": "all_to_all", "elements": 64}]}],
    },
    "sweep_m": {"launches": 1, "seconds": 3, "minimum_steps": 2, "maximum_steps": 4},
    "sweep_payload": {
        "payloads": ["1KiB", "4KiB"],
        "launches": 1,
        "seconds": 3,
        "minimum_rounds": 2,
        "maximum_rounds": 4,
    },
    "drift": {"seconds": 3, "probes_of_a_kind": 2, "mixed": 2},
}
TINY: dict[str, Any] = {
    "workload": "llama",
    "parallelism": "tensor",
    "width": 16,
    "hidden": 32,
    "layers": 1,
    "heads": 4,
    "sequence": 8,
    "batch": 2,
    "vocabulary": 256,
    "microbatches": [1, 2],
    "loss_microbatches": 2,
}
