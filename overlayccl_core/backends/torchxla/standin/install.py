"""Put the stand-in in place of `import torch_xla`, so modules for torch_xla run unchanged on CPU ranks.

torch.distributed must be started (gloo), as by torchrun. The values are real, but no graph is compiled and no time
means anything.
"""

import sys
from importlib import util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from overlayccl_core.backends.torchxla.standin import runtime, xla_model


def device(index: int | None = None) -> torch.device:
    return torch.device("cpu")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Start a new graph: everything is computed already, only the order of collectives starts anew."""
    xla_model.start_graph()


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return None, like the real one for an event that never happened: nothing is compiled."""
    return None


def _module(name: str, **members: Any) -> ModuleType:
    module = util.module_from_spec(ModuleSpec(name, None))
    vars(module).update(members)
    return module


core = _module("torch_xla.core", xla_model=xla_model)
metrics = _module("torch_xla.debug.metrics", metric_data=metric_data)
debug = _module("torch_xla.debug", metrics=metrics)
top = _module(
    "torch_xla", __version__="stand-in", device=device, sync=sync, core=core, debug=debug, runtime=runtime
)
MODULES = {
    "torch_xla": top,
    "torch_xla.core": core,
    "torch_xla.core.xla_model": xla_model,
    "torch_xla.debug": debug,
    "torch_xla.debug.metrics": metrics,
    "torch_xla.runtime": runtime,
}


def install() -> None:
    """Install the stand-in; RuntimeError if the real torch_xla is installed: it is never hidden."""
    if sys.modules.get("torch_xla") is top:
        return
    if "torch_xla" in sys.modules or util.find_spec("torch_xla") is not None:
        raise RuntimeError("torch_xla is installed here: the stand-in is for where it is not")
    sys.modules |= MODULES
