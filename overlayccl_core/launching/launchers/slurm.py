"""Slurm: one agent on each node of this process's job."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.launching import processes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.interface import address_towards
from overlayccl_core.launching.launcher import DoctorCheck, agent, no_link, one_rail
from overlayccl_core.launching.lines import Where

agents, this_host, options = True, False, ()
link_bytes_per_s, rails = no_link, one_rail

JOB = "SLURM_JOB_ID"
OF_THE_JOB = (JOB, "SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_CONF_SERVER")
NODE_DOCTOR = "overlayccl_core.backends.node_doctor"
ANSWER_S = 2100.0  # for a job to look at a node: ParallelCluster gives nodes 30 minutes to come up
QUICK_S = 20.0
GONE = ("down", "drain", "fail", "maint", "unk")  # prefixes of node states in which no job starts


def refuses(deployment: Deployment) -> str:
    """Refuse a host without Slurm's commands."""
    missing = [command for command in ("sbatch", "srun", "squeue") if shutil.which(command) is None]
    if not missing:
        return ""
    return (
        f"deployment {deployment.name}: its {deployment.ranks} ranks run on {deployment.nodes} nodes of a "
        f"Slurm cluster, and this host has no {' and no '.join(missing)}: run this on the head node of such "
        "a cluster. What works here: `snakemake --profile local all`, and with -n any profile"
    )


def refuses_here(deployment: Deployment) -> str:
    """Refuse a process outside of a job: ranks start on the job's nodes."""
    if JOB in os.environ:
        return ""
    return (
        f"deployment {deployment.name}: its ranks start in a job of Slurm, and this is none: `snakemake --profile "
        "NAME all` makes jobs, and `salloc` with as many nodes gives you one for a command of your own"
    )


def job_resources(deployment: Deployment) -> Mapping[str, int | str]:
    """Ask for whole nodes, with one task on each, however many GPUs the profile's `gres` asks for."""
    nodes = deployment.nodes
    each: dict[str, int | str] = {"threads": deployment.ranks_per_node, "nodes": nodes, "tasks": nodes}
    each["tasks_per_gpu"] = 0  # else the plug-in asks for so many tasks a GPU
    if nodes == 1:
        return {**each, "slurm_extra": "--exclusive"}
    return {**each, "mpi": "srun", "slurm_extra": "--ntasks-per-node=1 --exclusive"}


def doctor(deployment: Deployment, profile: Profile | None) -> list[DoctorCheck]:
    """Check the controller, the partition and its nodes; then look at a node by a short job."""
    if refuses(deployment):
        return []
    controller = _said(["scontrol", "ping"])
    up = "is UP" in controller
    if not up:
        return [DoctorCheck("Slurm", False, "its controller does not answer: start slurmctld")]
    there = _partition(deployment, profile)
    checks = [DoctorCheck("Slurm", True, controller.splitlines()[0]), there]
    return [*checks, *(_node(deployment, profile) if there.ok else [])]


def _partition(deployment: Deployment, profile: Profile | None) -> DoctorCheck:
    """Check for as many usable nodes as the deployment has."""
    name = profile.partition if profile else ""
    lines = _said(["sinfo", "-h", "-o", "%P|%D|%t", *(["-p", name] if name else [])]).splitlines()
    told = [line.split("|") for line in lines if line.count("|") == 2]
    usable = sum(int(nodes) for _, nodes, state in told if not state.lower().startswith(GONE))
    check = f"partition {name}" if name else "partition"
    if not told:
        known = ", ".join(sorted({line.rstrip("*") for line in _said(["sinfo", "-h", "-o", "%P"]).split()}))
        file = f"profiles/{profile.name}/profile.yaml" if profile else "the profile"
        mend = f"there is none of that name: set slurm_partition in {file} to one of {known}"
        return DoctorCheck(check, False, mend)
    states = ", ".join(f"{nodes} {state}" for _, nodes, state in told)
    enough = usable >= deployment.nodes
    short = (
        "" if enough else f": {deployment.nodes} are needed: resume them (`sinfo -R`), or take fewer nodes"
    )
    return DoctorCheck(check, enough, f"nodes: {states}{short}")


def _node(deployment: Deployment, profile: Profile | None) -> list[DoctorCheck]:
    """Return the checks of a node, by a short job; a node that does not see this folder prints none."""
    where = [f"--partition={profile.partition}"] if profile and profile.partition else []
    where += [f"--account={profile.account}"] if profile and profile.account else []
    where += [f"--gres={profile.gres}"] if profile and profile.gres else []
    file = Path("config/deployments", f"{deployment.name}.yaml")
    folder = Path.cwd()
    print(f"asking a node, which may have to boot (at most {ANSWER_S / 60:.0f} minutes) ...", file=sys.stderr)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".overlayccl-") as made:
            done = subprocess.run(
                [
                    *("srun", "--nodes=1", "--ntasks=1", "--time=5", "--mem=0", f"--chdir={folder}", *where),
                    *(sys.executable, "-P", "-m", NODE_DOCTOR, str(folder / file), made.name),
                ],
                capture_output=True,
                text=True,
                timeout=ANSWER_S,
            )
    except subprocess.TimeoutExpired:
        late = f"no job started within {ANSWER_S:.0f} s: look at `squeue`, and at the limits of your nodes"
        return [DoctorCheck("a job on a node", False, late)]
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        mend = f"{folder} and {sys.executable} must be on a folder that all nodes share"
        return [DoctorCheck("a job on a node", False, f"failed ({last}): {mend}")]
    checks = [DoctorCheck(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    return [one._replace(name=f"a node's {one.name}") for one in checks]


def _said(command: list[str]) -> str:
    """Return a command's output; empty if it cannot run or is too slow."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=QUICK_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def address(deployment: Deployment) -> str:
    """Return this host's address towards the last node of its job; the first may be this host."""
    job = os.environ.get(JOB, "")
    nodes = _said(["squeue", "--noheader", f"--jobs={job}", "--format=%N"]).strip()
    told = re.findall(
        r"^NodeName=(\S+).* NodeAddr=(\S+)", _said(["scontrol", "--oneliner", "show", "node", nodes]), re.M
    )
    if len(told) < deployment.nodes:
        said = (
            f"Slurm tells of {len(told)} nodes in job {job} ({nodes}), and deployment {deployment.name} has "
            f"{deployment.nodes}: start it in a job of as many (`salloc --nodes={deployment.nodes}`)"
        )
        raise LaunchError(said, kind=Failure.LAUNCHER)
    name, last = told[deployment.nodes - 1]
    try:
        return address_towards(last)
    except OSError as error:
        said = f"node {name} has the address {last}, to which no way leads from here ({error})"
        raise LaunchError(said, kind=Failure.LAUNCHER) from None


def start(
    deployment: Deployment, towards: Where, environment: Mapping[str, str], printed: BinaryIO
) -> "subprocess.Popen[bytes]":
    """Run `srun` with one task per node, with all of the job's resources there, from within any step."""
    nodes = str(deployment.nodes)
    return subprocess.Popen(
        [
            *("srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"),
            *("--overlap", "--mem=0", "--cpu-bind=none", "--input=none", "--export=ALL"),
            *("bash", "-c", f'export OVERLAYCCL_NODE="$SLURM_NODEID"; exec {shlex.join(agent(towards))}'),
        ],
        env={**_without_steps(os.environ), **environment},
        stdout=printed,
        stderr=printed,
        start_new_session=True,
        preexec_fn=processes.with_me(),
    )


def _without_steps(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop Slurm's variables of this step: `srun` would take CPUs, tasks and binding from them by default."""
    return {
        name: value
        for name, value in environment.items()
        if name in OF_THE_JOB or not name.startswith(("SLURM_", "SRUN_"))
    }
