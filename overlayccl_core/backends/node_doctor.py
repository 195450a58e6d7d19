"""What a node has and lacks, in lines of JSON: run by a job on it (`launchers/`), with a deployment's file."""

import json
import platform
import socket
import sys
from pathlib import Path

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import load


def main(file: str) -> None:
    """Rows of check, ok, detail."""
    deployment = load(Path(file))
    where = {
        "check": "host",
        "ok": True,
        "detail": f"{socket.gethostname()}, Python {platform.python_version()}",
    }
    for row in (where, *backend_of(deployment).host(deployment)):
        print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
