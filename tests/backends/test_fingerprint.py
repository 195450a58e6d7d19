"""Parts of a fingerprint's line; what of the environment is in it, and what of it the ranks get."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.backends.fingerprint import environment_parts, line, part
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.torchdist.environment import environment
from tests.backends.batches import batch, deployment

HERE = deployment()


def test_a_part_is_found_by_its_name() -> None:
    text = line(
        {"host": "vm", "cpu": "AMD EPYC 9B45, boosted", "torch": "2.13.0+cpu", "ranks": "4 (4 a node)"}
    )
    assert part(text, "torch") == "2.13.0+cpu"
    assert part(text, "ranks") == "4 (4 a node)"
    assert part(text, "nccl") is None


def test_what_is_set_is_told_by_name_and_value_and_what_is_usual_is_not() -> None:
    given = {"MALLOC_ARENA_MAX": "1", "HOME": "/root", "THREADS": "2", "LD_PRELOAD": "libjemalloc.so"}
    told = environment_parts(given, ("LD_PRELOAD", "MALLOC_", "THREADS"), {"THREADS": "2"})
    assert told == {"environment": "LD_PRELOAD=libjemalloc.so MALLOC_ARENA_MAX=1"}
    assert environment_parts({"HOME": "/root", "THREADS": "2"}, ("THREADS",), {"THREADS": "2"}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GLOO_SOCKET_IFNAME", "eth0"), ("LD_PRELOAD", "/usr/lib/libjemalloc.so"), ("OMP_PROC_BIND", "close"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), ("MALLOC_ARENA_MAX", "1"), ("NCCL_ALGO", "Ring"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
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


def test_other_variables_reach_the_ranks_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = backend.fingerprint(HERE)
    monkeypatch.setenv("ANYTHING_ELSE", "1")
    assert environment(HERE, "")["ANYTHING_ELSE"] == "1"
    assert backend.fingerprint(HERE) == before


def test_another_host_cpu_kernel_or_torch_is_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {backend.fingerprint(HERE)}
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    seen.add(backend.fingerprint(HERE))
    monkeypatch.setattr(platform, "release", lambda: "9.9")
    seen.add(backend.fingerprint(HERE))
    monkeypatch.setattr(fingerprints, "cpu_model", lambda: "another")
    seen.add(backend.fingerprint(HERE))
    monkeypatch.setattr(backend.metadata, "version", lambda _name: "9.9")
    seen.add(backend.fingerprint(HERE))
    assert len(seen) == 5


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
