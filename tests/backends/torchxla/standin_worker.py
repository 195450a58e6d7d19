"""What ranks run in tests of modules for torch_xla: the stand-in is put where they find it, then trials as ever."""

import sys
from pathlib import Path

from overlayccl_core.backends.torchdist import trials_worker
from overlayccl_core.backends.torchxla.standin.install import install

if __name__ == "__main__":
    install()
    trials_worker.main(Path(sys.argv[1]))
