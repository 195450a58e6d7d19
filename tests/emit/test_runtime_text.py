"""Real Python files become text: what is used of them, with its imports, each once."""

import ast
from pathlib import Path

import pytest

from overlayccl_core.backends.torchdist.backend import CALLS
from overlayccl_core.emit.runtime_text import FUTURE, names_defined, runtime_text
from overlayccl_core.emit.torch_dialect import EVENTS, LAYOUT
from overlayccl_core.program.kinds import COLLECTIVES

CORE = Path(__file__).parents[2] / "overlayccl_core"
ONE = '''"""A file's own words are not printed."""

from __future__ import annotations

import os
import numpy as np
from collections.abc import Iterable, Sequence
from overlayccl_core.printed.two import helper, LIMIT

# how often
COUNT = 3
state: list[int] = []


def used(x: Sequence[int]) -> int:
    """Kept."""
    global state
    state = [helper(i) for i in x]  # kept too
    return COUNT * LIMIT


@staticmethod
def decorated() -> str:
    return os.sep


def unused() -> Iterable[int]:
    return np.zeros(3)
'''
TWO = """from collections.abc import Sequence

def helper(x):
    def inner(count):
        return count + len(TITLE)

    return inner(x)

def other(x: Sequence[int]): ...
"""
GIVEN = ("LIMIT", "TITLE")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """one.py and two.py, in a folder of plug-ins."""
    folder = tmp_path / "printed"
    folder.mkdir()
    (folder / "one.py").write_text(ONE)
    (folder / "two.py").write_text(TWO)
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(tmp_path))
    return folder


def printed(*names: str, given: tuple[str, ...] = GIVEN, also: tuple[str, ...] = ()) -> tuple[str, str]:
    modules = ("overlayccl_core.printed.one", "overlayccl_core.printed.two")
    text = runtime_text(names, modules, given=given, also=also)
    return text.imports, text.definitions


def test_what_is_used_is_printed_as_it_stands_in_the_order_of_the_files() -> None:
    imports, definitions = printed("used")
    assert imports == f"{FUTURE}\n\nfrom collections.abc import Sequence"
    assert definitions.startswith("# how often\nCOUNT = 3\nstate: list[int] = []\n\n\ndef used(")
    assert '    """Kept."""\n    global state\n' in definitions and "# kept too" in definitions
    assert definitions.index("def used(") < definitions.index("def helper(")
    assert "unused" not in definitions and "other" not in definitions and "own words" not in definitions


def test_imports_are_merged_and_sorted_those_of_the_printed_module_among_them() -> None:
    imports, definitions = printed("unused", "decorated", "other", also=("torch",))
    assert imports.split("\n\n") == [
        FUTURE, "import os\nfrom collections.abc import Iterable, Sequence", "import numpy as np\nimport torch",
    ]  # fmt: skip
    assert "@staticmethod\ndef decorated" in definitions


def test_what_is_nowhere_or_in_two_places_is_refused(files: Path) -> None:
    with pytest.raises(ValueError, match="nothing is in none of"):
        printed("nothing")
    with pytest.raises(ValueError, match="helper uses TITLE, which"):
        printed("used", given=("LIMIT",))
    with pytest.raises(ValueError, match="COUNT stands twice"):
        printed("used", given=(*GIVEN, "COUNT"))
    (files / "two.py").write_text(TWO + "def used(): ...\n")
    with pytest.raises(ValueError, match="used stands twice"):
        printed("used")
    (files / "two.py").write_text(TWO.replace("collections.abc", "typing"))
    with pytest.raises(ValueError, match=r"Sequence .*two places"):
        printed("used", "other")
    (files / "two.py").write_text("print()\n")
    with pytest.raises(ValueError, match="two, line 1: "):
        printed("used")
    (files / "two.py").write_text("from overlayccl_core.printed.one import used as mine\n")
    with pytest.raises(ValueError, match="renames used"):
        printed("used")
    (files / "two.py").unlink()
    with pytest.raises(ValueError, match=r"no file .*printed/two\.py"):
        printed("used")


def arguments(file: Path) -> dict[str, list[str]]:
    """The functions at a file's top that others call, with the names of their arguments."""
    return {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def test_the_calls_of_a_library_are_those_that_are_declared() -> None:
    declared = arguments(CORE / "emit" / "runtime" / "calls.pyi")
    assert {kind.value for kind in COLLECTIVES} <= set(declared)
    one_graph = {"pairs_of", "boundary"}  # of libraries that compile one for all ranks, in place of these:
    any_graph = {"peers_of", "all_to_all_rows"}
    called = arguments(CORE / "backends" / "torchdist" / "calls.py")
    assert called == {name: of for name, of in declared.items() if name not in one_graph}
    traced = arguments(CORE / "backends" / "torchxla" / "calls.py")
    assert traced == {name: of for name, of in declared.items() if name not in any_graph}
    mirrored = arguments(Path(__file__).parent / "plugins" / "backends" / "mirror" / "calls.py")
    assert mirrored.items() <= declared.items()  # what no Program of its tests calls, it does not give


def test_every_file_of_the_package_is_one_that_can_be_printed() -> None:
    for module in (EVENTS, LAYOUT, CALLS):
        names = names_defined(module)
        ast.parse(runtime_text(names, (module,)).definitions)
