"""torchrun, which also leaves how ranks ended: what it prints about them, it knows as fields.

Run as `python -m`: the file that is to hold the exit codes, then the arguments of torchrun.
"""

import json
import sys
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def main(exit_codes: Path, torchrun: list[str]) -> None:
    """Run torchrun; where ranks fail, write {process id: exit code} of those, negative for a signal."""
    try:
        run.main(torchrun)
    except ChildFailedError as error:
        codes = {failure.pid: failure.exitcode for failure in error.failures.values()}
        whole = exit_codes.with_suffix(".tmp")  # it is read while this process runs
        whole.write_text(json.dumps(codes))
        whole.replace(exit_codes)
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
