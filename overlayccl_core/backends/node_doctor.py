"""Check a node, and print lines of JSON: a job runs this on the node (`launchers/`).

It gets a deployment's file, and a file just made beside the future results.
"""

import json
import platform
import shutil
import socket
import sys
from pathlib import Path

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sizes import GIB
from overlayccl_core.launching.launcher import DoctorCheck


def shared(made: Path) -> DoctorCheck:
    """Check that this node sees a file just made by another node, and may write to it."""
    folder = made.parent
    try:
        with made.open("r+") as file:
            file.write(socket.gethostname())
    except OSError as error:
        mend = f"run from a folder that all nodes share and may write to (on ParallelCluster /fsx): {error}"
        return DoctorCheck("shared folder", False, f"{folder}: {mend}")
    free = shutil.disk_usage(folder).free / GIB
    return DoctorCheck("shared folder", True, f"{folder}, {free:.0f} GiB free")


def main(file: str, made: str) -> None:
    deployment = load(Path(file))
    where = DoctorCheck("host", True, f"{socket.gethostname()}, Python {platform.python_version()}")
    for check in (where, shared(Path(made)), *backend_of(deployment).host(deployment)):
        print(json.dumps(check))


if __name__ == "__main__":
    main(*sys.argv[1:])
