"""What training uses of the library that its ranks have. No other file here knows a backend, but launches.py."""

from overlayccl_core.backends.torchdist.bench_driver import load_module, make_usual_groups, shared_group
from overlayccl_core.backends.torchdist.rank import Rank, run_rank

__all__ = ["Rank", "load_module", "make_usual_groups", "run_rank", "shared_group"]
