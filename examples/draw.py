"""Answers in a language model's place, drawn from the ways that people know: for the search `scripted`.

    snakemake --profile local ablations

The question comes as JSON on standard input, the answer goes as JSON to standard output (asking/command.py has the
fields). The pool are the known ways of the Problem that is asked about: the strategies of its file and the shared
ways named there, without those in fewer bits. `ideas` are answered with the pool in a drawn order, `implement` with
the source of one, `refine` with another one, whatever was to be refined. The draws depend on the search's seed and
on the question.

Nothing is learned about models so. It shows what a search gains from more ideas and more rounds if every answer is
right and none is thought about.
"""

import ast
import json
import random
import re
import sys
from importlib.util import find_spec
from pathlib import Path

LOSSY = "lossy"  # begins the name of a file of ways in fewer bits


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    problem = re.search(r"^# The Problem: (\w+)", asked["system"], re.MULTILINE)
    pool = ways_of(problem[1]) if problem else {}
    said = answer(asked, pool)
    if said is None:
        sys.exit(f"no known way answers this question ({asked['purpose']})")
    print(json.dumps({"text": json.dumps(said), "model": "draw.py", "made_by": "scripted"}))


def answer(asked: dict, pool: dict[str, tuple[str, str]]) -> dict | None:
    """Ideas, or a sketch."""
    said = asked["messages"][-1]["text"]
    draw = random.Random(f"{asked['sample']} {asked['purpose']} {said}")
    if asked["purpose"] == "ideas":
        names = draw.sample(sorted(pool), len(pool))
        return {"ideas": [{"name": name, "family": "", "idea": pool[name][0]} for name in names]}
    if asked["purpose"] == "implement":
        wanted = [name for name in pool if f"\n{name} (" in said]
    else:
        wanted = [draw.choice(sorted(pool))] if asked["purpose"] == "refine" and pool else []
    if not wanted:
        return None
    idea, source = pool[wanted[0]]
    return {"function": wanted[0], "source": source, "rationale": idea}


def ways_of(problem: str) -> dict[str, tuple[str, str]]:
    """name -> (what it does, the source of the Problem's file, which has a strategy of that name)."""
    strategies = Path(str(find_spec("overlayccl_core").origin)).parent / "strategies"
    source = (strategies / f"{problem}.py").read_text()
    tree = ast.parse(source)
    library = next(x for x in tree.body if isinstance(x, ast.Assign) and _named(x.targets[0]) == "LIBRARY")
    named = [
        pair.elts[0] for word in library.value.keywords if word.arg == "ways" for pair in word.value.elts
    ]
    files = [file for file in map(_named, named) if not file.startswith(LOSSY)]
    trees = [tree, *(ast.parse((strategies / "ways" / f"{file}.py").read_text()) for file in files)]
    return {name: (idea, source) for one in trees for name, idea in _functions(one)}


def _named(x: ast.expr) -> str:
    return x.id if isinstance(x, ast.Name) else ""


def _functions(tree: ast.Module) -> list[tuple[str, str]]:
    """(name, docstring) of the public functions."""
    functions = [x for x in tree.body if isinstance(x, ast.FunctionDef) and not x.name.startswith("_")]
    return [(x.name, ast.get_docstring(x) or x.name) for x in functions]


if __name__ == "__main__":
    main()
