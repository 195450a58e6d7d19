"""Each file that the documents name exists, and holds the names that they put into it."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("overlayccl_core", "run_display", "workflow_scripts", "tests", "docs", "examples", "benchmarks")
CODE = {file: ast.parse(file.read_text()) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
DOCUMENTS = [ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/*.md"), *ROOT.glob("overlayccl_core/**/README.md")]
# files that a run, a reader or a later version makes, or another project has
ELSEWHERE = (
    "P",
    "capture",
    "chosen",
    "namespaces",
    "neuron",
    "proven",
    "queue",
    "sum_scatter",
    "test_sum_scatter",
)

NAMES = r"((?:`[\w.]+`, )*`[\w.]+`(?: and `[\w.]+`)?)"
IN_FILE = re.compile(NAMES + r" (?:(?:in|of) `([\w/]+\.py)`|\(`([\w/]+\.py)`\))")
FILE, MEMBER = re.compile(r"`((?!results/|plugins/)[\w/]+\.py)`"), re.compile(r"`([A-Z]\w+)\.([A-Za-z]\w*)`")


def names_in(tree: ast.AST) -> set[str]:
    """All names that stand in the code, as definitions or in use; not what is behind a dot."""
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = list(ast.walk(tree))
    return {n.name for n in nodes if isinstance(n, named)} | {n.id for n in nodes if isinstance(n, ast.Name)}


def test_the_documents_name_what_exists() -> None:
    members = defaultdict[str, set[str]](set)
    for one in (node for tree in CODE.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        members[one.name] |= names_in(one)
    wrong = []
    for document in DOCUMENTS:
        text = document.read_text()
        for path in FILE.findall(text):
            if Path(path).stem not in ELSEWHERE and not any(file.match(path) for file in CODE):
                wrong.append(f"{document.name}: there is no {path}")
        for names, path in ((names, one or other) for names, one, other in IN_FILE.findall(text)):
            held = set().union(*(names_in(tree) for file, tree in CODE.items() if file.match(path)))
            gone = {name.split(".")[0] for name in re.findall(r"[\w.]+", names.replace(" and ", ""))} - held
            wrong += [f"{document.name}: {path} has no {name}" for name in sorted(gone)]
        for owner, name in MEMBER.findall(text):
            if name not in members[owner] | {"md", "yaml"}:
                wrong.append(f"{document.name}: {owner} has no {name}")
    assert not wrong, "\n".join(wrong)
