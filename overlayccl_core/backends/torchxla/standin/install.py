"""Put the stand-in in place of `import torch_xla`, so modules for torch_xla run unchanged on CPU ranks.

torch.distributed must be started (gloo), as by torchrun. The values are real, but no graph is compiled and no time
means anything.
"""

import sys
from importlib import util
from types import ModuleType

from overlayccl_core.backends.torchxla.standin import metrics, runtime, top, xla_model


def install() -> None:
    """Install the stand-in; RuntimeError if the real torch_xla is installed: it is never hidden."""
    if sys.modules.get("torch_xla") is top:
        return
    if "torch_xla" in sys.modules or util.find_spec("torch_xla") is not None:
        raise RuntimeError("torch_xla is installed here: the stand-in is for where it is not")
    core, debug = ModuleType("torch_xla.core"), ModuleType("torch_xla.debug")
    for package, name, module in (
        (top, "core", core),
        (top, "debug", debug),
        (core, "xla_model", xla_model),
        (debug, "metrics", metrics),
        (top, "runtime", runtime),
    ):
        setattr(package, name, module)
    sys.modules |= {
        "torch_xla": top,
        "torch_xla.core": core,
        "torch_xla.core.xla_model": xla_model,
        "torch_xla.debug": debug,
        "torch_xla.debug.metrics": metrics,
        "torch_xla.runtime": runtime,
    }
