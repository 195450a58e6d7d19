"""What ranks run in tests of deployed modules for torch_xla, and of what the stand-in refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from overlayccl_core.backends.torchdist.rank import Rank
from overlayccl_core.backends.torchxla.standin import xla_model
from overlayccl_core.backends.torchxla.standin.install import install, top
from tests.emit import deployed_worker


def traps(rank: Rank, _: Path) -> dict[str, Any]:
    """What the real library stumbles over, or does otherwise than one expects. 4 ranks."""
    xm, me = xla_model, rank.index
    x, pairs = torch.arange(4.0) + me, [[0, 2], [1, 3]]
    kept, listed = x.clone(), x.clone()
    nan = torch.tensor([float("nan"), 1.0])
    seen = {
        "other groups": refused(
            lambda: xm.all_reduce("sum", x, groups=[[0, 1], [2, 3]] if me < 3 else pairs)
        ),
        "other order": refused(lambda: xm.all_gather(x) if me else xm.all_reduce("sum", x)),
        "other size": refused(lambda: xm.all_gather(x[: 2 + me % 2])),
        "unequal": refused(lambda: xm.all_gather(x, groups=[[0, 1, 2], [3]], pin_layout=False)),
        "not all": refused(lambda: xm.all_reduce("sum", x, groups=[[0, 1]])),
        "twice": refused(lambda: xm.all_to_all(x, 0, 0, 2, groups=[[0, 1], [1, 2]])),
        "not divided": refused(lambda: xm.reduce_scatter("sum", x[:3], 1.0, 0, 4)),
        "sent twice": refused(lambda: xm.collective_permute(x, [[0, 1], [0, 2]])),
        "single": float(xm.all_reduce("sum", kept, groups=pairs)[0]),
        "kept": torch.equal(kept, x),
        "list": [float(y[0]) for y in xm.all_reduce("sum", [listed], 0.5, groups=pairs)],
        "in place": float(listed[0]),
        "nobody sends": xm.collective_permute(x, [[0, 1]]).tolist()
        == ([0.0, 1.0, 2.0, 3.0] if me == 1 else [0.0] * 4),
    }
    xm.all_gather(nan)
    seen["chained"] = [bool(y.isnan().all()) for y in (xm.all_gather(x), xm.all_reduce("sum", x))]
    top.sync()
    seen["next graph"] = bool(xm.all_gather(x).isnan().any())
    return seen


def refused(call: Callable[[], object]) -> str:
    """The error of a call."""
    try:
        call()
    except (AssertionError, ValueError, RuntimeError) as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    """Play the scenarios of a folder."""
    install()
    deployed_worker.SCENARIOS["traps"] = traps
    deployed_worker.main(folder)
