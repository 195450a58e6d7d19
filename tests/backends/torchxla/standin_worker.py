"""What ranks run in tests of modules for torch_xla: the stand-in is put where they find it, then trials as ever."""

from pathlib import Path

from overlayccl_core.backends.torchdist import trials_worker
from overlayccl_core.backends.torchxla.standin.install import install


def main(folder: Path) -> None:
    """Run the trials of a folder."""
    install()
    trials_worker.main(folder)
