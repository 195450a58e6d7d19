"""Gradients in fewer bytes beside torch's own hooks, losses and times: `python -m benchmarks lossy`.

`overlayccl losses` of examples/scripts/ddp.py on two ranks: two hosts joined by a link of 100 Mbit/s, and one host.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lanes import AS_RANK
from overlayccl_core.launching.launchers.namespaces import on_hosts

RANKS, RATE = 2, "100mbit"
STEPS = 200
SCRIPT = str(Path(__file__).parents[1] / "examples/scripts/ddp.py")
BESIDE = ("OVERLAYCCL_LOSSY=bf16", "HOOK=bf16", "HOOK=powersgd")


def report() -> Iterator[str]:
    """What the command prints, on each network."""
    for network, command in (("a link of 100 Mbit/s", across()), ("one host", within())):
        yield f"{RANKS} gloo ranks, {network}:"
        yield from _losses(command)


def across() -> list[str]:
    """A rank on each of two hosts."""
    meets = ("MASTER_ADDR=10.77.0.1", "MASTER_PORT=29599", f"WORLD_SIZE={RANKS}", "GLOO_SOCKET_IFNAME=eth0")
    script = ["env", "SEED={seed}", *meets, sys.executable, SCRIPT]
    return on_hosts(RANKS, RATE, ["sh", "-ec", AS_RANK, "sh", *script])


def within() -> list[str]:
    """Both ranks on this host."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    return ["env", "SEED={seed}", sys.executable, *torchrun, "--nproc-per-node", str(RANKS), SCRIPT]


def _losses(command: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--lossy", "int8", *(word for one in BESIDE for word in ("--beside", one))]
        words += ["--steps", str(STEPS), "--output", str(Path(folder, "losses.parquet")), "--", *command]
        losses = [sys.executable, "-m", "overlayccl_core.cli.main", "losses", *words]
        environment = {**os.environ, "STEPS": str(STEPS), "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(losses, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if ended.returncode > 1:
        sys.exit(f"`overlayccl losses` ended with {ended.returncode}")
    return ended.stdout.splitlines()
