"""Plug-ins are found by the names of their files."""

import ast
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.backends.backend import Backend
from overlayccl_core.digest import Sources, closure, digest


def test_plug_ins_are_files_and_backends_are_folders() -> None:
    assert {"grad_ar", "tp_mlp", "uniform_a2a"} <= set(loader.names("problems"))
    assert loader.names("problems") == loader.names("strategies")
    assert "torchdist" in loader.names("backends")
    assert loader.load("backends", "torchdist").__name__ == "overlayccl_core.backends.torchdist.backend"


def test_what_was_handed_out_is_remembered() -> None:
    loader.load("problems", "tp_mlp")
    text = loader.source("strategies", "tp_mlp")
    assert "LIBRARY" in text
    assert {
        loader.ROOT / "problems/tp_mlp.py",
        loader.ROOT / "strategies/tp_mlp.py",
    } <= loader.handed_out()


@pytest.mark.parametrize("name", ["tp_mpl", "../settings", "__init__", "Tp_mlp", ""])
def test_an_unknown_name_is_told_which_there_are(name: str) -> None:
    nearest = "did you mean 'tp_mlp'.*" if name == "tp_mpl" else ""
    with pytest.raises(ValueError, match=rf"{nearest}There are: .*tp_mlp"):
        loader.load("problems", name)


def test_unknown_folders_and_data_files_are_named() -> None:
    with pytest.raises(ValueError, match=r"folder .*/nowhere"):
        loader.names("nowhere")
    with pytest.raises(ValueError, match=r"no file nowhere\.json"):
        loader.data("nowhere.json")
    assert loader.data("program/program.schema.json").startswith("{")


def test_nothing_else_imports_a_module_of_the_package_by_a_computed_name() -> None:
    """import_module and __import__ would load what no code digest covers."""
    for file in loader.ROOT.rglob("*.py"):
        if file == Path(loader.__file__):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            assert name not in ("import_module", "__import__"), f"{file}:{getattr(node, 'lineno', 0)}"


MINE = "from overlayccl_core.problems.odd_parts.helper import NAME\n"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with the Problem `odd`, which imports from a folder beside it, and a backend `odd`."""
    parts, backend = tmp_path / "problems" / "odd_parts", tmp_path / "backends" / "odd"
    for folder in (parts, backend):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (tmp_path / "problems" / "odd.py").write_text(MINE)
    (parts / "helper.py").write_text('NAME = "odd"\n')
    (parts / "backend.py").touch()
    (backend / "backend.py").touch()
    (backend / "printed.py").write_text('NAME = "printed"\n')
    (tmp_path / "backends" / "neutral.py").touch()
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_plug_in_may_be_in_a_folder_of_ones_own(mine: Path) -> None:
    assert {"odd", "tp_mlp"} <= set(loader.names("problems"))
    assert loader.load("problems", "odd").NAME == "odd"
    assert loader.load("problems", "tp_mlp").__name__ == "overlayccl_core.problems.tp_mlp"
    assert mine / "problems/odd.py" in loader.handed_out()


def test_a_folder_beside_a_file_hides_it_only_among_backends(mine: Path) -> None:
    assert set(loader.names("problems")) & {"odd", "odd_parts"} == {"odd"}
    assert set(loader.names("backends")) & {"odd", "neutral"} == {"odd"}


def test_a_part_of_a_backend_is_loaded_apart(mine: Path) -> None:
    assert loader.load("backends", "odd", "printed").NAME == "printed"
    assert loader.path("backends", "torchdist", "deployed").name == "deployed.py"
    with pytest.raises(ValueError, match=r"odd has no printer\.py"):
        loader.load("backends", "odd", "printer")


def test_data_may_be_in_a_folder_of_ones_own(mine: Path) -> None:
    (mine / "problems/odd_parts/words.json").write_text("[]")
    assert loader.data("problems/odd_parts/words.json") == "[]"
    assert mine / "problems/odd_parts/words.json" in loader.handed_out()


def test_a_folder_of_plug_ins_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.VARIABLE, "/nowhere")
    with pytest.raises(NotADirectoryError, match=r"OVERLAYCCL_PLUGINS: .*/nowhere"):
        loader.names("problems")


def test_a_plug_in_of_ones_own_counts_in_a_digest_with_what_it_imports(mine: Path) -> None:
    def now() -> str:
        return digest("cases", "problems/odd.py")

    before = now()
    assert mine / "problems/odd_parts/helper.py" in closure("cases", "problems/odd.py")
    (mine / "problems/odd_parts/helper.py").write_text('NAME = "even"\n')
    assert now() != before
    moved = mine.rename(mine.with_name("moved"))
    (moved / "problems/odd_parts/helper.py").write_text('NAME = "odd"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(loader.VARIABLE, str(moved))
        assert now() == before


def test_a_plug_in_that_is_half_written_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backends" / "half").mkdir(parents=True)
    file = tmp_path / "backends" / "half" / "backend.py"
    file.write_text("REQUIRES = ()\n")
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=rf"^{file} .*refuses.*backends\.backend"):
        loader.plug_in(Backend, "backends", "half")


def test_ones_own_strategies_take_the_place_of_the_packages_and_what_is_imported_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "plugins"
    for folder in ("strategies", "problems"):
        (own / folder).mkdir(parents=True)
        (own / folder / "tp_mlp.py").write_text('"""Mine."""\n')
    (own / "strategies" / "mine.py").write_text('"""Another."""\n')
    monkeypatch.setenv(loader.VARIABLE, "")  # so that what is put there is gone afterwards
    monkeypatch.delenv(loader.VARIABLE)
    before = Sources().digest("known_ways", "strategies/tp_mlp.py")
    loader.use_project(tmp_path)
    assert loader.source("strategies", "tp_mlp") == '"""Mine."""\n'
    assert loader.place(loader.path("strategies", "tp_mlp")) == (own, Path("strategies/tp_mlp.py"))
    assert loader.path("problems", "tp_mlp").is_relative_to(loader.ROOT)
    assert {"mine", "grad_ar"} <= set(loader.names("strategies"))
    assert Sources().digest("known_ways", "strategies/tp_mlp.py") != before


def test_folders_that_were_named_stay_and_a_project_without_any_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    (tmp_path / "plugins").mkdir()
    loader.use_project(tmp_path)
    assert loader.roots()[1:] == (tmp_path,)
    monkeypatch.delenv(loader.VARIABLE)
    loader.use_project(tmp_path / "plugins")
    assert loader.roots() == (loader.ROOT,)


def test_a_file_that_is_read_has_a_name_as_plug_ins_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one's own, too: `_own` is nobody's."""
    folder = tmp_path / "strategies/ways"
    folder.mkdir(parents=True)
    for name in ("own", "_own"):
        (folder / f"{name}.py").write_text("X = 1\n")
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    assert loader.sources("strategies/ways", "own") == ("X = 1\n",)
    with pytest.raises(ValueError, match="there is no '_own'"):
        loader.sources("strategies/ways", "_own")
