"""Slurm: one agent a node of the job that this process is in."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping

from overlayccl_core.backends import processes
from overlayccl_core.backends.launcher import agent
from overlayccl_core.configuration.deployment import Deployment

JOB = "SLURM_JOB_ID"


def refuses(deployment: Deployment) -> str:
    """Slurm's commands are needed, and inside a job of its own nothing else."""
    missing = [command for command in ("sbatch", "srun", "squeue") if shutil.which(command) is None]
    if not missing:
        return ""
    return (
        f"deployment {deployment.name}: its {deployment.ranks} ranks run on {deployment.nodes} nodes of a "
        f"Slurm cluster, "
        f"and this host has no {' and no '.join(missing)}: run this on the head node of such a cluster. What works "
        "here: `snakemake --profile local all`, and with -n any profile"
    )


def start(deployment: Deployment, port: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """`srun` with a task a node. Slurm tells each task the address of the host that called it."""
    command = shlex.join(agent("ADDRESS", port)).replace("ADDRESS", '"$SLURM_LAUNCH_NODE_IPADDR"')
    nodes = str(deployment.nodes)
    return subprocess.Popen(
        [
            *("srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"),
            *("--overlap", "--mem=0", "--cpu-bind=none", "--input=none", "--export=ALL"),
            *("bash", "-c", f'export OVERLAYCCL_NODE="$SLURM_NODEID"; exec {command}'),
        ],
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=processes.die_with_parent,
    )
