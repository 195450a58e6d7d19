"""Answers in a language model's place, from files that a person wrote: for the proposer `command`.

    snakemake --profile local all --config proposer=command command='python examples/answer.py'
    snakemake --profile local probing --config proposer=command command='python examples/answer.py'

The question comes as JSON on standard input, the answer goes as JSON to standard output (asking/command.py has the
fields). `ideas` are answered with the sketches of the Problem that is asked about, `implement` with the source
of one; where probes are to be chosen (`probe`), the n-th turn of a conversation is answered with the n-th list of
tool calls in probes.json, whatever was measured. Whatever else is asked has no answer here. Give a folder or a file
of your own as an argument:

    sketches/<problem>/<name>.py      the strategy is its last function, the idea its docstring
    probes.json                       [[{"name": tool, "input": {...}}, ...], ...]
"""

import ast
import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "sketches"
PROBES = Path(__file__).parent / "probes.json"


def main(given: Path | None) -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    if asked["purpose"] == "probe":
        said = {"tool_calls": chosen(asked, given or PROBES), "model": (given or PROBES).name}
    else:
        said = {"text": json.dumps(sketched(asked, given or FOLDER)), "model": (given or FOLDER).name}
    print(json.dumps({**said, "made_by": "scripted"}))


def chosen(asked: dict, file: Path) -> list[dict]:
    """The tool calls of this turn; after the last turn an end."""
    turns, turn = json.loads(file.read_text()), sum(m["role"] == "assistant" for m in asked["messages"])
    return turns[turn] if turn < len(turns) else [{"name": "finish", "input": {}}]


def sketched(asked: dict, folder: Path) -> dict:
    """Ideas, or a sketch."""
    problem = re.search(r"^# The Problem: (\w+)", asked["system"], re.MULTILINE)
    sketches = sorted((folder / (problem[1] if problem else "")).glob("*.py"))
    said = asked["messages"][-1]["text"]
    if asked["purpose"] == "ideas":
        return {"ideas": [{"name": s.stem, "family": "", "idea": _function(s)[1]} for s in sketches]}
    wanted = [s for s in sketches if asked["purpose"] == "implement" and f"\n{s.stem} (" in said]
    if not wanted:
        sys.exit(f"there is no sketch in {folder} for this question ({asked['purpose']})")
    name, idea = _function(wanted[0])
    return {"function": name, "source": wanted[0].read_text(), "rationale": idea}


def _function(sketch: Path) -> tuple[str, str]:
    """Name and docstring of the last function in a file."""
    functions = [node for node in ast.parse(sketch.read_text()).body if isinstance(node, ast.FunctionDef)]
    return functions[-1].name, ast.get_docstring(functions[-1]) or functions[-1].name


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
