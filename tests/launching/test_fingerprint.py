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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0"), ("LD_PRELOAD", "/usr/lib/libjemalloc.so"), ("OMP_PROC_BIND", "close"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), ("MALLOC_ARENA_MAX", "1"), ("ONEDNN_MAX_CPU_ISA", "AVX2"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"), ("MKL_CBWR", "COMPATIBLE"),
    ],
)  # fmt: skip
def test_a_variable_that_changes_how_fast_ranks_are_is_in_fingerprint_and_key(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    before = backend.fingerprint(HERE)
    monkeypatch.setenv(name, value)
    after = backend.fingerprint(HERE)
    assert f"{name}={value}" in (part(after, "environment") or "")
    assert environment(HERE, "")[name] == value
    assert batch(Path()).folder(before) != batch(Path()).folder(after)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_the_threads_of_a_rank_are_one_whoever_starts_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake sets these for every job, to the threads of its rule: no other fingerprint than by hand."""
    monkeypatch.delenv(name, raising=False)
    before = backend.fingerprint(HERE)
    monkeypatch.setenv(name, "7")
    assert environment(HERE, "")[name] == "1"
    assert backend.fingerprint(HERE) == before


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ANYTHING_ELSE",
            "CUDA_HOME",
            "TORCH_HOME",
            "MKL_ROOT",
            "NCCL_DEBUG",
            "OMP_DISPLAY_ENV",
            "PYTORCH_HOME",
        ),
        *("CUDA_VISIBLE_DEVICES", "NCCL_ALGO"),  # of another library than this deployment's
    ],
)
def test_other_variables_reach_the_ranks_and_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = backend.fingerprint(HERE)
    monkeypatch.setenv(name, "1")
    assert environment(HERE, "")[name] == "1"
    assert backend.fingerprint(HERE) == before


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("CUDA_VISIBLE_DEVICES", True), ("NCCL_ALGO", True), ("NCCL_SOCKET_IFNAME", True), ("NCCL_IB_HCA", True),
        ("NCCL_P2P_DISABLE", True), ("NCCL_MIN_NCHANNELS", True), ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("TORCH_NCCL_HIGH_PRIORITY", True), ("CUDA_DEVICE_MAX_CONNECTIONS", True), ("NCCL_BUFFSIZE", True),
        ("CUDA_HOME", False), ("CUDA_PATH", False), ("NCCL_DEBUG", False), ("NCCL_DEBUG_FILE", False),
        ("NCCL_HOME", False), ("TORCH_CUDA_ARCH_LIST", False), ("CUDA_CACHE_PATH", False),
    ],
)  # fmt: skip
def test_of_what_nccl_and_cuda_are_told_that_counts_which_changes_a_measurement(
    name: str, changes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nccl = HERE.changed(library="nccl")
    monkeypatch.delenv(name, raising=False)
    before = environment_of(nccl)
    monkeypatch.setenv(name, "1")
    assert (environment_of(nccl) != before) == changes


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


@pytest.mark.usefixtures("plug_ins")
def test_another_link_of_the_launcher_is_another_machine() -> None:
    slow, fast = (
        HERE.changed(launcher="processes", launcher_options={"link": rate}) for rate in ("1Gbit", "10Gbit")
    )
    assert part(backend.fingerprint(slow), "launcher") == "processes"
    assert "link=1Gbit" in backend.fingerprint(slow)
    assert not one_machine(backend.fingerprint(slow), backend.fingerprint(fast))
    with pytest.raises(ValueError, match=r"processes knows no 'lnk': .*\(link\)"):
        backend.fingerprint(HERE.changed(launcher="processes", launcher_options={"lnk": "1Gbit"}))


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
