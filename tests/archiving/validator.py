"""The public validator of crates, in an environment of its own; without it tests are skipped."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".env-rocrate" / "bin" / "python"
NEEDED = "OVERLAYCCL_NEEDS_VALIDATOR"


def validated(folder: Path, scratch: Path) -> "subprocess.CompletedProcess[str]":
    """Its answer on a folder: exit code 0 where that is a valid Provenance Run Crate."""
    if not PYTHON.exists():
        if NEEDED in os.environ:
            pytest.fail("the validator is not here: make validator")
        pytest.skip("the validator is not here: make validator")
    command = [PYTHON, ROOT / "tests/archiving/valid.py", folder, scratch]
    return subprocess.run(command, capture_output=True, text=True, check=False)
