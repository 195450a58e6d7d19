"""Answers a search in a language model's place, from a folder of sketches: for the proposer `command`.

    snakemake --profile local all --config proposer=command command='python examples/answer.py'

The question comes as JSON on standard input, the answer goes as JSON to standard output (asking/command.py has the
fields). `ideas` are answered with the sketches of the Problem that is asked about, `implement` with the source
of one; whatever else is asked has no answer here. Give a folder of your own as an argument:

    sketches/<problem>/<name>.py      the strategy is its last function, the idea its docstring
"""

import ast
import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "sketches"


def main(folder: Path) -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    problem = re.search(r"^# The Problem: (\w+)", asked["system"], re.MULTILINE)
    sketches = sorted((folder / (problem[1] if problem else "")).glob("*.py"))
    said = asked["messages"][-1]["text"]
    if asked["purpose"] == "ideas":
        answer = {"ideas": [{"name": s.stem, "family": "", "idea": _function(s)[1]} for s in sketches]}
    else:
        wanted = [s for s in sketches if asked["purpose"] == "implement" and f"\n{s.stem} (" in said]
        if not wanted:
            sys.exit(f"there is no sketch in {folder} for this question ({asked['purpose']})")
        name, idea = _function(wanted[0])
        answer = {"function": name, "source": wanted[0].read_text(), "rationale": idea}
    print(json.dumps({"text": json.dumps(answer), "made_by": "scripted", "model": folder.name}))


def _function(sketch: Path) -> tuple[str, str]:
    """Name and docstring of the last function in a file."""
    functions = [node for node in ast.parse(sketch.read_text()).body if isinstance(node, ast.FunctionDef)]
    return functions[-1].name, ast.get_docstring(functions[-1]) or functions[-1].name


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
