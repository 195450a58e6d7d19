"""What ranks of a launch find in their environment."""

import pkgutil
import subprocess
import sys

import pytest

from overlayccl_core.backends.torch_ranks.fork_client import rank_environment
from tests.timing.batches import deployment


def test_what_a_script_asks_of_deployed_modules_reaches_no_rank_that_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plain calls would be timed as the chosen file."""
    for name in ("OVERLAYCCL_PLAIN", "OVERLAYCCL_CHECK", "OF_ONES_OWN"):
        monkeypatch.setenv(name, "1")
    there = rank_environment({}, deployment())
    assert there["OF_ONES_OWN"] == "1"
    assert not {"OVERLAYCCL_PLAIN", "OVERLAYCCL_CHECK"} & set(there)


def test_ranks_that_time_do_not_import_what_only_training_needs() -> None:
    """Each rank of each launch imports it anew: torch's FSDP takes a second."""
    ranks = "overlayccl_core.backends.torchdist.rank, overlayccl_core.backends.torch_ranks.timer"
    code = f"import sys, {ranks}; sys.exit('torch.distributed.fsdp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_takes_long_to_import_is_imported_before_ranks_are_forked() -> None:
    from overlayccl_core.backends.torchdist import backend

    (needed,) = backend.IMPORTS
    assert pkgutil.resolve_name(needed).STEPS
