"""Put on the path of a copy as sitecustomize: notes every file of ours that a rule's processes open.

A process started as `python -P -m workflow_scripts.stage RULE` and all that it starts (ranks too) append to
traced/RULE-PROBLEM.txt (or RULE-MODEL.txt). An audit hook hears a file being opened, so it does not matter who
reads it, or how.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
RUNNER = "workflow_scripts.stage"
OURS = (f"{ROOT}/overlayccl_core/", f"{ROOT}/workflow_scripts/")


def rule() -> str:
    """RULE-PROBLEM, or RULE-MODEL, that this process works for (the second part may be empty)."""
    words = sys.orig_argv
    if RUNNER in words:
        option = next((o for o in ("--problem", "--model") if o in words), None)
        subject = words[words.index(option) + 1] if option else ""
        os.environ["TRACED_RULE"] = f"{words[words.index(RUNNER) + 1]}-{subject}"
    return os.environ.get("TRACED_RULE", "")


def note(event: str, arguments: tuple[object, ...]) -> None:
    """The hook."""
    if event == "open" and isinstance(arguments[0], str):
        path = os.path.abspath(arguments[0])
        folder, name = os.path.split(path)
        if os.path.basename(folder) == "__pycache__":  # bytecode is opened in the place of its source
            path = os.path.join(os.path.dirname(folder), f"{name.partition('.')[0]}.py")
        if path.startswith(OURS):
            os.write(NOTES, f"{os.path.relpath(path, ROOT)}\n".encode())


if rule():
    (ROOT / "traced").mkdir(exist_ok=True)
    NOTES = os.open(ROOT / "traced" / f"{rule()}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.set_inheritable(NOTES, False)
    sys.addaudithook(note)
