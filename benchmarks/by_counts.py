"""What an exchange by counts costs beside the library's exact call: `python -m benchmarks by_counts`.

Both in the same rounds of one launch on four ranks. An exchange by counts is timed whole: the agreement on
the counts, packing, the exchange of chunks, and the exact calls of steps beyond the capacity.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.deployed import deployed
from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Proven, Stamp, Way
from overlayccl_core.measuring.statistics import ratio_within
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose

RANKS, TOKENS, CAPACITY = 4, 256, 96  # a capacity factor of 1.5
WIDTHS = (16, 512)
STEPS = 50
EVENNESS = 30.0  # of the Dirichlet distribution of the experts' shares: few steps overflow
WAYS = {CHOSEN: "native", "permute_ring": "permute_ring", "gather_slice": "gather_slice"}
_ROW = "  {:6} {:14} {:22} {:22} {:>10}"
_TORCHRUN = ("torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node")


def report() -> Iterator[str]:
    """A line for each way of exchanging chunks, at each width."""
    yield (
        f"exchanges by counts: {RANKS} ranks, {TOKENS} rows a rank, capacity {CAPACITY}. How many times as fast as"
        " the library's exact call, with an exchange of the counts before it, and alone"
    )
    yield _ROW.format("width", "chunks by", "with counts", "alone", "overflowed")
    with tempfile.TemporaryDirectory() as folder:
        for width, by_rank in zip(WIDTHS, _timed(Path(folder)), strict=True):
            names = by_rank[0]["samples"]
            slowest = {name: np.max([one["samples"][name] for one in by_rank], axis=0) for name in names}
            for way, strategy in WAYS.items():
                over = [
                    str(ratio_within(slowest[arm], slowest[way])) for arm in ("exact_and_counts", "exact")
                ]
                yield _ROW.format(width, strategy, *over, f"{by_rank[0]['overflowed']:.0%}")


def _timed(folder: Path) -> list[tuple[dict[str, Any], ...]]:
    """For each width what every rank saw."""
    cases = [
        catalog.case("uniform_a2a", {"chunk": CAPACITY, "width": width}, ranks=RANKS, ranks_per_node=RANKS)
        for width in WIDTHS
    ]
    module = deployed(
        "uniform_a2a", [_deployed_case(case) for case in cases], Stamp(library="gloo", versions={})
    )
    (folder / "uniform_a2a.py").write_text(module)
    random = np.random.default_rng(0)
    shares = random.dirichlet([EVENNESS] * RANKS, STEPS)
    (folder / "counts.json").write_text(
        json.dumps([random.multinomial(TOKENS, share, RANKS).tolist() for share in shares])
    )
    worker = Path(__file__).with_name("by_counts_rank.py")
    command = [sys.executable, "-m", *_TORCHRUN, str(RANKS), str(worker), str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    of_ranks = [json.loads((folder / f"timed-{rank}.json").read_text()) for rank in range(RANKS)]
    return list(zip(*of_ranks, strict=True))


def _deployed_case(case: Case) -> DeployedCase:
    ways = {name: _way(case, strategy) for name, strategy in {**WAYS, PLAIN: "native"}.items()}
    return DeployedCase(case_id=case.id, has_backward=True, ways=ways)


def _way(case: Case, strategy: str) -> Way:
    forward = trace_source(catalog.library_source(case.problem), strategy, catalog.build(case))
    backward = catalog.backward(case)
    assert backward is not None
    programs = {Direction.FORWARD: forward, Direction.BACKWARD: transpose(forward, backward)}
    return {
        direction: Proven(candidate=strategy, recipe="{}", numerics="exact", program=program)
        for direction, program in programs.items()
    }
