"""The code digest covers what a command can load, and nothing that does not matter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core.digest import ROOT, RUNNER, Sources, _parsed, closure, digest

STAGE = "overlayccl_core/stages/rule.py"
SOURCES = {
    "overlayccl_core/__init__.py": "",
    "overlayccl_core/a/__init__.py": "",
    "overlayccl_core/a/one.py": "from overlayccl_core.a import two\nFILE = 'shape.json'\n",
    "overlayccl_core/a/two.py": '"""Two."""\nX = 1\n',
    "overlayccl_core/a/shape.json": "{}",
    "overlayccl_core/a/near.py": "from . import two\nfrom .deep import leaf\n",
    "overlayccl_core/a/deep/leaf.py": "Y = 2\n",
    "overlayccl_core/b/ranks.py": "WORKER = 'overlayccl_core.b.worker'\n",
    "overlayccl_core/b/worker.py": "import torch\n",
    "overlayccl_core/plug/in_use.py": "def f():\n    from overlayccl_core.a import near\n",
    "overlayccl_core/plug/other.py": "Z = 3\n",
    STAGE: "from overlayccl_core.a.one import FILE\nfrom overlayccl_core.b import ranks\n",
    RUNNER: "import sys\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def names(root: Path, *plugins: str) -> set[str]:
    return {path.relative_to(root).as_posix() for path in closure("rule", *plugins, root=root)}


def test_closure_follows_imports_packages_modules_run_by_name_and_data_files(root: Path) -> None:
    assert names(root) == {
        "overlayccl_core/__init__.py",
        "overlayccl_core/a/__init__.py",
        "overlayccl_core/a/one.py",
        "overlayccl_core/a/two.py",
        "overlayccl_core/a/shape.json",
        "overlayccl_core/b/ranks.py",
        "overlayccl_core/b/worker.py",
        STAGE,
        RUNNER,
    }


def test_what_was_read_of_this_repository_is_kept_until_its_text_is_another(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    fresh = Sources(root).digest("rule")
    assert not list(root.rglob("*.parsed.json"))  # of another one nothing is
    monkeypatch.setattr("overlayccl_core.digest.ROOT", root)
    assert Sources(root).digest("rule") == fresh
    parsed: list[str] = []

    def again(text: str, module: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
        parsed.append(module)
        return _parsed(text, module)

    monkeypatch.setattr("overlayccl_core.digest._parsed", again)
    assert Sources(root).digest("rule") == fresh and not parsed
    (kept,) = root.rglob("worker.parsed.json")
    for damaged in ("[", "null"):  # as from a disk that was full; of another form
        kept.write_text(damaged)
        assert Sources(root).digest("rule") == fresh
    (root / "overlayccl_core/a/two.py").write_text("X = 2\n")
    assert Sources(root).digest("rule") != fresh
    assert parsed == [*["overlayccl_core.b.worker"] * 2, "overlayccl_core.a.two"]


def test_closure_has_the_plug_ins_that_are_named_and_what_they_import(root: Path) -> None:
    added = names(root, "plug/in_use.py") - names(root)
    assert added == {
        "overlayccl_core/plug/in_use.py",
        "overlayccl_core/a/near.py",
        "overlayccl_core/a/deep/leaf.py",
    }


@pytest.mark.parametrize(
    ("path", "text", "counts"),
    [
        ("overlayccl_core/a/two.py", '"""Other words."""\n# More.\nX  =  1\n', False),
        ("overlayccl_core/a/two.py", '"""Two."""\nX = 2\n', True),
        ("overlayccl_core/b/worker.py", "import torch\nimport os\n", True),
        ("overlayccl_core/a/shape.json", "{ }", True),
        ("overlayccl_core/plug/other.py", "Z = 4\n", False),
        ("overlayccl_core/a/__init__.py", "X = 1\n", True),
        (STAGE, SOURCES[STAGE] + "print()\n", True),
        (RUNNER, "import os\n", True),
    ],
)
def test_only_code_that_can_run_counts(root: Path, path: str, text: str, counts: bool) -> None:
    before = digest("rule", root=root)
    (root / path).write_text(text)
    assert (digest("rule", root=root) != before) is counts


def test_a_file_that_moves_counts_and_a_missing_one_is_named(root: Path) -> None:
    assert digest("rule", "plug/in_use.py", root=root) != digest("rule", root=root)
    with pytest.raises(ValueError, match=r"nowhere\.py"):
        digest("rule", "plug/nowhere.py", root=root)
    with pytest.raises(ValueError, match=r"norule\.py"):
        digest("norule", root=root)


def test_what_is_printed_into_modules_counts_for_the_rules_that_print_it() -> None:
    """It is named by its dotted name only: nothing of the package imports it."""

    def printed(script: str, *plugins: str) -> set[str]:
        return {path.stem for path in closure(script, *plugins) if path.parent.name == "runtime"} - {
            "__init__"
        }

    backend = "backends/torchdist/backend.py"
    for script in ("probe", "shortlist", "bench", "train"):
        assert printed(script, backend) == {"attention", "events", "layout"}, script
        assert "calls" in {path.stem for path in closure(script, backend) if path.parent.name == "torchdist"}
    folder = Path(__file__).parents[1] / "overlayccl_core" / "emit" / "runtime"
    everything = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert printed("choose", "backends/torchdist/deployed.py") == everything


def pythons() -> list[Path]:
    """Interpreters of our versions besides this one: on the PATH, or of pyenv."""
    versions = ("3.11", "3.12", "3.13")
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
    places = [[folder / f"python{v}" for folder in folders if "shims" not in folder.parts] for v in versions]
    found = [next((p for p in ways if os.access(p, os.X_OK)), None) for ways in places]
    return [
        p for p, v in zip(found, versions, strict=True) if p and v != ".".join(map(str, sys.version_info[:2]))
    ]


def test_other_versions_of_python_have_the_same_digests() -> None:
    scripts = ("selftest", "search", "train", "report")
    told = f"import json, overlayccl_core.digest as d; print(json.dumps([d.digest(s) for s in {scripts}]))"
    if not (others := pythons()):
        pytest.skip("no other Python is here")
    for other in others:
        done = subprocess.run([other, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == str([digest(script) for script in scripts]).replace("'", '"') + "\n", other


@pytest.mark.parametrize(
    ("folder", "before", "after", "counts"),
    [
        ("configuration", "F = Field(ge=1, description='a')", "F = Field(ge=1, description='b')", False),
        ("configuration", "F = Field(ge=1, description='a')", "F = Field(ge=2, description='a')", True),
        ("configuration", "F = Field(description='a')", "F = Field(description=a)", True),
        ("tables", "C = Column(name='a', doc='a')", "C = Column(name='a', doc='b')", False),
        ("tables", "C = Column(name='a', doc='a')", "C = Column(name='b', doc='a')", True),
        ("tables", "C = text('a', doc='a')", "C = text('a', doc='b')", False),
        ("tables", "C = text('a', doc='a')", "C = text('b', doc='a')", True),
        ("probes", "F = Field(description='a')", "F = Field(description='b')", True),  # a model is told it
    ],
)
def test_what_is_said_for_people_of_fields_and_columns_does_not_count(
    root: Path, folder: str, before: str, after: str, counts: bool
) -> None:
    file = root / "overlayccl_core" / folder / "three.py"
    file.parent.mkdir()
    (root / "overlayccl_core/a/two.py").write_text(f"from overlayccl_core.{folder} import three\n")
    file.write_text(f"{before}\n")
    old = digest("rule", root=root)
    file.write_text(f"{after}\n")
    assert (digest("rule", root=root) != old) is counts


def test_a_constant_that_is_none_counts(root: Path) -> None:
    before = digest("rule", root=root)
    (root / "overlayccl_core/a/two.py").write_text("X = None\n")
    assert digest("rule", root=root) != before


@pytest.mark.parametrize("place", ["a/plugins", "z/plugins"])
def test_a_digest_is_the_same_wherever_plug_ins_lie(root: Path, tmp_path: Path, place: str) -> None:
    """Beside the package or far from it, before or behind it in the alphabet: an archive is unpacked anywhere."""
    own = tmp_path / place
    (own / "strategies").mkdir(parents=True)
    (own / "strategies/mine.py").write_text("W = 4\n")
    inside = root / "overlayccl_core/strategies"
    inside.mkdir()
    (inside / "mine.py").write_text("W = 4\n")
    (inside / "__init__.py").write_text("")
    assert Sources(root, [own]).digest("rule", "strategies/mine.py") == Sources(root, []).digest(
        "rule", "strategies/mine.py"
    )


@pytest.mark.parametrize("searches", [True, False], ids=["a rule that searches", "another"])
def test_a_docstring_counts_where_code_tells_it_on(root: Path, searches: bool) -> None:
    """A search says of what a rewrite rule is by its docstring."""
    rule = root / "overlayccl_core/rewrites/rules/merge.py"
    reads = root / "overlayccl_core/search/rules.py"
    for file, text in ((rule, '"""Merge."""\nX = 1\n'), (reads, "from overlayccl_core.a import two\n")):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    if searches:
        (root / STAGE).write_text("from overlayccl_core.search import rules\n")
    before = digest("rule", "rewrites/rules/merge.py", root=root)
    rule.write_text('"""Merge all."""\nX = 1\n')
    assert (digest("rule", "rewrites/rules/merge.py", root=root) != before) is searches
    (root / "overlayccl_core/a/two.py").write_text('"""Another."""\nX = 1\n')  # which nothing tells on
    after = digest("rule", "rewrites/rules/merge.py", root=root)
    assert (after != before) is searches
