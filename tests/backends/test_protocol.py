"""Backends define what the protocol declares, and nobody else knows a library."""

import ast
import inspect
import os
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.backends.backend import Backend, oversubscribed
from overlayccl_core.backends.rank import Rank
from overlayccl_core.evidence.deployment_files import Printer
from overlayccl_core.launching.fingerprint import part
from overlayccl_core.launching.node_report import NodeReport
from tests.timing.batches import deployment

ROOT = Path(__file__).parents[2]
LIBRARIES = ("torchdist", "torch.distributed", "distributeddataparallel", "gloo", "nccl")


def declared(protocol: type) -> dict[str, inspect.Signature]:
    """The methods of a protocol, without `self`."""
    methods = {}
    for name, function in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            signature = inspect.signature(function)
            methods[name] = signature.replace(parameters=list(signature.parameters.values())[1:])
    return methods


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("name", "library", "shares"),
    [
        ("torchdist", "gloo", True),
        ("torchxla", "standin", True),
        ("torchxla", "neuron", False),
        ("paper", "numpy", False),
    ],
)
def test_ranks_that_need_a_core_each_share_those_that_their_agents_tell_of(
    name: str, library: str, shares: bool
) -> None:
    """Of the node with the fewest, not of this process."""
    mine = len(os.sched_getaffinity(0))
    where = deployment(2 * mine).changed(backend=name, library=library)
    told = {cores: oversubscribed(where, NodeReport(fewest_cores=cores)) for cores in (0, mine, 2 * mine)}
    assert told == {0: shares, mine: shares, 2 * mine: False}


@pytest.mark.parametrize("name", ["torchdist", "torchxla", "paper"])
@pytest.mark.usefixtures("plug_ins")
def test_a_backend_defines_all_that_is_declared_with_the_same_arguments(name: str) -> None:
    backend = loader.load("backends", name)
    for attribute in Backend.__annotations__:
        assert hasattr(backend, attribute), attribute
    for method, wanted in declared(Backend).items():
        kinds = [(p.kind, p.default) for p in wanted.parameters.values()]
        there = inspect.signature(getattr(backend, method))
        assert [(p.kind, p.default) for p in there.parameters.values()] == kinds, method
    printer = loader.load("backends", name, "deployed")
    for method, wanted in declared(Printer).items():
        there = inspect.signature(getattr(printer, method))
        assert list(there.parameters)[: len(wanted.parameters)] == list(wanted.parameters), method


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("torchdist", "gloo"),
        ("torchdist", "nccl"),
        ("paper", "numpy"),
        ("torchxla", "standin"),
        ("torchxla", "neuron"),
    ],
)
@pytest.mark.usefixtures("plug_ins")
def test_a_fingerprint_tells_the_versions_that_deployed_modules_compare(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, printer = loader.load("backends", name), loader.load("backends", name, "deployed")
    if library == "nccl":
        monkeypatch.setattr(backend, "_nccl_version", lambda: "2.28.3")
    told = backend.fingerprint(deployment(4).changed(backend=name, library=library))
    versions = {software: part(told, software) for software in printer.VERSIONS}
    assert [software for software, version in versions.items() if version is None] == (
        {
            "gloo": ["nccl", "torch-neuronx"],
            "nccl": ["torch-neuronx"],
            "standin": ["torch-xla", "torch-neuronx", "neuronx-cc", "libneuronxla"],
        }.get(library, [])
    )
    assert versions.get("nccl") == ("2.28.3" if library == "nccl" else None)


def test_a_rank_of_torch_has_all_that_a_worker_may_ask_for() -> None:
    from overlayccl_core.backends.torchdist.rank import Rank as Torch

    for method, wanted in declared(Rank).items():
        assert list(inspect.signature(getattr(Torch, method)).parameters)[1:] == list(wanted.parameters), (
            method
        )
    properties = {name for name, value in vars(Rank).items() if isinstance(value, property)}
    assert properties <= set(dir(Torch)) | set(Torch.__dataclass_fields__)


def words_of(file: Path) -> set[str]:
    """What a source names: modules that it imports, and texts that are no docstrings."""
    words: set[str] = set()
    tree = ast.parse(file.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            words |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            words |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words.add(node.value)
    return words


def test_no_other_file_of_the_package_knows_a_library() -> None:
    core, own = ROOT / "overlayccl_core", set(loader.names("backends"))
    knows = {
        file.relative_to(core).as_posix()
        for file in core.rglob("*.py")
        if not own & {*file.relative_to(core).parts[1:-1]} and not file.is_relative_to(core / "process_group")
        for word in words_of(file)
        if any(
            library in word.lower().replace("nccl-tests", "").replace("overlayccl", "")
            for library in LIBRARIES
        )
    }
    assert knows == {
        "cli/bucket.py",  # it tells people what to set in a training script of their own
        "launching/interface.py",  # the interface on which ranks meet, whatever library they measure
        "observing/dumps.py",  # traces and dumps differ by library
        "observing/overview.py",
        "observing/traces.py",
        "measuring/frameworks.py",  # the library's own ways to train, as words for people
        "tables/sidecar.py",  # which variables of the environment are noted
        "backends/torch_ranks/fork_server.py",  # ranks of any library meet in torch's store
        "backends/torch_ranks/rank.py",  # and tell each other what passes no library
    }
