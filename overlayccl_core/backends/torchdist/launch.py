"""Launch ranks (`start`), watched as all launches are."""

import json
import os
import sys
from pathlib import Path

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends.launch import Launch, LaunchError, Starter, Watch, no_watch, run

__all__ = ["Launch", "LaunchError", "environment", "environment_parts", "launch"]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # whoever starts the launch may have set others
USUAL = {"GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # unless the caller sets something else
SPEED = (*fingerprints.SPEED, "ATEN_", "CUDA_", "DNNL_", "GLOO_", "NCCL_", "ONEDNN_", "PYTORCH_", "TORCH_")

START = "overlayccl_core.backends.torchdist.start"
EXIT_CODES_FILE = "exit-codes.json"


def launch(plan: Launch, watch: Watch = no_watch) -> float:
    """Run the ranks to their end (`backends.launch.run`: what it gives, errors too)."""
    return run(plan, Starter(command=_command, environment=environment, exit_codes=_exit_codes), watch)


def _command(plan: Launch) -> list[str]:
    codes = plan.folder / EXIT_CODES_FILE
    return [sys.executable, "-m", START, str(plan.folder), str(plan.ranks), plan.worker, str(codes)]


def environment() -> dict[str, str]:
    """Of the ranks: one thread each; the interface of this machine, so that no name has to be resolved."""
    package_root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([package_root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**USUAL, **os.environ, **ONE_THREAD, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def environment_parts() -> dict[str, str]:
    """The part of a fingerprint that tells what is set here and reaches the ranks."""
    return fingerprints.environment_parts(environment(), SPEED, {**USUAL, **ONE_THREAD})


def _exit_codes(plan: Launch) -> dict[int, int]:
    """What `start.main` knew of the ranks when it ended."""
    file = plan.folder / EXIT_CODES_FILE
    codes = json.loads(file.read_text()) if file.exists() else {}
    return {int(pid): code for pid, code in codes.items()}
