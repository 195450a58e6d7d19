"""What `import torch` calls where this package is installed (entry point `torch.backends`).

It makes the name "overlayccl" known to `init_process_group`. The commands of `overlayccl` set these variables; with
OVERLAYCCL_RECORD, OVERLAYCCL_WAYS or OVERLAYCCL_LOSSY every process group of the process is ours, by any name:

- OVERLAYCCL_RECORD: folder for a record of the script's steps; OVERLAYCCL_WHOLE: the script goes on afterwards.
- OVERLAYCCL_FAKE: with OVERLAYCCL_RECORD; this process is RANK of WORLD_SIZE, and there are no others.
- OVERLAYCCL_WAYS: folder with proven ways of making the script's calls.
- OVERLAYCCL_TUNED: folder for what is found out about the ways while the script trains; a next run begins there.
- OVERLAYCCL_LOSSY: sums in fewer bytes: how, and of which groups (`parts.LossySetting`).
- OVERLAYCCL_STEPS: `<count> <folder>`: time so many steps, write them there, and end.
"""

import os
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .group import Passage


def autoload() -> None:
    """Make our groups known to torch; called by torch when it is imported."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    from .seam import NAME, install

    if hasattr(dist.Backend, NAME.upper()):
        return  # installed, and laid beside the script, too: the first one counts

    if alone := bool(os.environ.get("OVERLAYCCL_FAKE")):
        from . import fake

        fake.prepare()
    folder, ways, lossy = (os.environ.get(f"OVERLAYCCL_{name}", "") for name in ("RECORD", "WAYS", "LOSSY"))
    count, _, timed = os.environ.get("OVERLAYCCL_STEPS", "").partition(" ")
    said: dict[str, Mapping[str, Any]] = {}
    if timed:
        from .stopwatch import Stopwatch

        Stopwatch(Path(timed), int(count), said)

    def passage() -> "Passage":
        from .group import plain

        if folder:
            from .recorder import StepRecorder

            below = fake.passed if alone else plain
            return StepRecorder(Path(folder), whole=bool(os.environ.get("OVERLAYCCL_WHOLE")), below=below)
        found: list[Any] = []
        if lossy:
            from .lossy import Lossy

            found.append(Lossy(lossy))
        if ways:
            from .tuned import Tuned

            kept = os.environ.get("OVERLAYCCL_TUNED")
            found.append(Tuned(Path(ways), Path(kept) if kept else None))
        said.update({of: ChainMap(*(getattr(one, of) for one in found)) for of in ("made", "numerics")})
        if len(found) == 2:
            from .two_passages import TwoPassages

            return TwoPassages(*found)
        return found[0] if found else plain

    install(passage, every=bool(folder or ways or lossy), library=fake.LIBRARY if alone else "")
