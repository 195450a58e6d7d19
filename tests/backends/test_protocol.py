"""Backends define what the protocol declares, and nobody else knows a library."""

import ast
import inspect
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.backends.backend import Backend
from overlayccl_core.backends.rank import Rank
from overlayccl_core.evidence.deployment_files import Printer

ROOT = Path(__file__).parents[2]
LIBRARIES = ("torchdist", "gloo", "nccl")


def declared(protocol: type) -> dict[str, inspect.Signature]:
    """The methods of a protocol, without `self`."""
    signatures = {}
    for name, function in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            signature = inspect.signature(function)
            signatures[name] = signature.replace(parameters=list(signature.parameters.values())[1:])
    return signatures


@pytest.mark.parametrize("name", ["torchdist", "paper"])
def test_a_backend_defines_all_that_is_declared_with_the_same_arguments(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(ROOT / "tests" / "plugins"))
    backend = loader.load("backends", name)
    for attribute in Backend.__annotations__:
        assert hasattr(backend, attribute), attribute
    for method, wanted in declared(Backend).items():
        kinds = [(p.kind, p.default) for p in wanted.parameters.values()]
        defined = inspect.signature(getattr(backend, method))
        assert [(p.kind, p.default) for p in defined.parameters.values()] == kinds, method
    for method, wanted in declared(Printer).items():
        defined = inspect.signature(getattr(loader.load("backends", name, "deployed"), method))
        assert list(defined.parameters)[: len(wanted.parameters)] == list(wanted.parameters), method


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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words.add(node.value)
    return words


def test_no_other_file_of_the_package_knows_a_library() -> None:
    core = ROOT / "overlayccl_core"
    knows = {
        file.relative_to(core).as_posix()
        for file in core.rglob("*.py")
        if "torchdist" not in file.parts
        for word in words_of(file)
        if any(
            library in word.lower().replace("nccl-tests", "").replace("overlayccl", "")
            for library in LIBRARIES
        )
    }
    assert knows == {"emit/runtime/calls.py"}  # torch's own calls, printed by torchdist alone
