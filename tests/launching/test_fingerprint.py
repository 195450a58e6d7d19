"""Parts of a fingerprint's line; what of the environment is in it, and what of it the ranks get."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.torchdist import environment as torchdist
from overlayccl_core.backends.torchdist.environment import environment
from overlayccl_core.backends.torchdist.environment import environment_parts as environment_of
from overlayccl_core.backends.torchxla import environment as torchxla
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.launching.fingerprint import SPEED, environment_parts, line, one_machine, part
from tests.timing.batches import batch, deployment

HERE = deployment()


def test_a_part_is_found_by_its_name() -> None:
    text = line({"cpu": "AMD EPYC 9B45, boosted", "torch": "2.13.0+cpu", "ranks": "4 (4 a node)"})
    assert part(text, "torch") == "2.13.0+cpu"
    assert part(text, "ranks") == "4 (4 a node)"
    assert part(text, "nccl") is None


def test_what_is_set_is_told_by_name_and_value_and_what_is_usual_is_not() -> None:
    given = {"MALLOC_ARENA_MAX": "1", "HOME": "/root", "THREADS": "2", "LD_PRELOAD": "libjemalloc.so"}
    told = environment_parts(given, ("LD_PRELOAD", "MALLOC_*", "THREADS"), {"THREADS": "2"})
    assert told == {"environment": "LD_PRELOAD=libjemalloc.so MALLOC_ARENA_MAX=1"}
    assert environment_parts({"HOME": "/root", "THREADS": "2"}, ("THREADS",), {"THREADS": "2"}) == {}


OF_GLOO = (
    *("GLOO_SOCKET_IFNAME", "LD_PRELOAD", "OMP_PROC_BIND", "TORCH_DISTRIBUTED_DEBUG", "MALLOC_ARENA_MAX"),
    *("ONEDNN_MAX_CPU_ISA", "GLIBC_TUNABLES", "MKL_CBWR"),
)
OF_NCCL = (
    *("CUDA_VISIBLE_DEVICES", "NCCL_ALGO", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_P2P_DISABLE"),
    *("NCCL_MIN_NCHANNELS", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_NCCL_HIGH_PRIORITY"),
    *("CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_BUFFSIZE"),
)
OF_NONE = (
    *("ANYTHING_ELSE", "CUDA_HOME", "CUDA_PATH", "TORCH_HOME", "MKL_ROOT", "NCCL_DEBUG", "NCCL_DEBUG_FILE"),
    *("NCCL_HOME", "TORCH_CUDA_ARCH_LIST", "CUDA_CACHE_PATH", "OMP_DISPLAY_ENV", "PYTORCH_HOME"),
)


@pytest.mark.parametrize("library", ["gloo", "nccl"])
@pytest.mark.parametrize("name", (*OF_GLOO, *OF_NCCL, *OF_NONE))
def test_a_variable_reaches_the_ranks_and_is_in_the_fingerprint_where_it_changes_how_fast_they_are(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = HERE.changed(library=library)
    counts = name in OF_NCCL if library == "nccl" else name in OF_GLOO
    if library == "nccl" and name in OF_GLOO:
        counts = not name.startswith("GLOO_")
    monkeypatch.delenv(name, raising=False)
    before = environment_of(here)
    monkeypatch.setenv(name, "1")
    assert environment(here, "")[name] == "1"
    assert (environment_of(here) != before) is counts
    assert (f"{name}=1" in environment_of(here).get("environment", "")) is counts


def test_another_fingerprint_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = backend.fingerprint(HERE)
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so")
    after = backend.fingerprint(HERE)
    assert "LD_PRELOAD=/usr/lib/libjemalloc.so" in (part(after, "environment") or "")
    assert batch(Path()).folder(before) != batch(Path()).folder(after)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_the_threads_of_a_rank_are_one_whoever_starts_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake sets these for every job, to the threads of its rule: no other fingerprint than by hand."""
    monkeypatch.delenv(name, raising=False)
    before = backend.fingerprint(HERE)
    monkeypatch.setenv(name, "7")
    assert environment(HERE, "")[name] == "1"
    assert backend.fingerprint(HERE) == before


def test_each_variable_that_counts_has_a_reason() -> None:
    for variables in (SPEED, *torchdist.SPEED.values(), torchxla.SPEED):
        assert all(reason for reason in variables.values())


def test_a_new_name_of_the_host_is_no_other_machine_nor_is_the_line_of_release_0_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = backend.fingerprint(HERE)
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    assert backend.fingerprint(HERE) == before
    old = "host vm, cpu AMD EPYC, cores 2, torch 2.13.0 #aabbccdd"
    assert one_machine(old, "cpu AMD EPYC, cores 2, torch 2.13.0 #00112233")
    assert not one_machine(old, "cpu AMD EPYC, cores 4, torch 2.13.0 #00112233")


def test_gpus_are_part_of_what_a_node_is_and_no_part_where_ranks_are_on_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "information").write_text("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t 99\n")
    monkeypatch.setattr(fingerprints, "GPUS", tmp_path)
    assert fingerprints.node_parts()["gpus"] == "2 NVIDIA H100 80GB HBM3"
    assert part(backend.fingerprint(HERE), "gpus") is None


def test_another_cpu_kernel_or_torch_is_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {backend.fingerprint(HERE)}
    monkeypatch.setattr(platform, "release", lambda: "9.9")
    seen.add(backend.fingerprint(HERE))
    monkeypatch.setattr(fingerprints, "cpu_model", lambda: "another")
    seen.add(backend.fingerprint(HERE))
    monkeypatch.setattr(backend.metadata, "version", lambda _name: "9.9")
    seen.add(backend.fingerprint(HERE))
    assert len(seen) == 4


FOUND = """
import json, torch
from overlayccl_core.backends.torchdist import calls
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
torch.__version__ = "2.13.0+cu130"  # as that of the common registry says, whose package is 2.13.0
print(json.dumps(calls.found(torch.device("cpu"))))
"""


def test_a_deployed_module_finds_the_versions_that_the_fingerprint_told() -> None:
    done = subprocess.run([sys.executable, "-c", FOUND], capture_output=True, text=True, check=True)
    told = backend.fingerprint(HERE)
    assert {name: part(told, name) for name in ("library", "torch")} == json.loads(done.stdout)
