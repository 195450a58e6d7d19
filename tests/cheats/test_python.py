"""Sources that aim at Python itself: harmful when they are executed, refused by the language.

Every test first shows the harm: a fresh, limited process executes the source as Python would and calls it.
Then the same source is refused in this process, after a bounded number of steps.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.tracing import trace_source
from tests.small_problems import exchange

ROOT = Path(__file__).parents[2]
PROBLEM = exchange(4, {"x": (8,)}, {"y": (8,)})
PATIENCE_S = 1.0
MEMORY_BYTES = 2**31

EXECUTED = f"""
import resource, sys
from overlayccl_core.program.tracing import trace_function
from tests.cheats.test_python import PROBLEM
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
names = {{}}
exec(sys.stdin.read(), names)
print("started", flush=True)
honest = trace_function(names["honest"], PROBLEM).value_digest
trace_function(names["tried"], PROBLEM)
same = trace_function(names["honest"], PROBLEM).value_digest == honest
print("as before" if same else "tampered")
"""

COMMAND = [sys.executable, "-c", EXECUTED]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}

HONEST = """from overlayccl_core.program.language import all_reduce, scale


def honest(io, p):
    io.write("y", scale(all_reduce(io.read("x")), 1, 4))


def tried(io, p):
"""


def source(body: str) -> str:
    """`body`, and then what an honest strategy does."""
    lines = [*body.strip().split("\n"), 'io.write("y", scale(all_reduce(io.read("x")), 1, 4))']
    return HONEST + "".join(f"    {line}\n" for line in lines)


def executed(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a source as plain Python in a process of its own."""
    return subprocess.run(
        COMMAND,
        input=text,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def ends(text: str, folder: Path) -> bool:
    """Whether it ends soon after its imports, which may take long on a busy machine."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(COMMAND, cwd=folder, env=ENVIRONMENT, text=True, **pipes) as process:
        assert process.stdin and process.stdout
        process.stdin.write(text)
        process.stdin.close()
        assert process.stdout.readline() == "started\n"
        try:
            process.wait(PATIENCE_S)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()


def assert_refused(text: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        trace_source(text, "tried", PROBLEM)


def test_the_harness_itself_does_no_harm(tmp_path: Path) -> None:
    text = source("pass")
    done = executed(text, tmp_path)
    assert (done.returncode, done.stdout.strip(), list(tmp_path.iterdir())) == (0, "started\nas before", [])
    trace_source(text, "tried", PROBLEM)


WRITES = {
    "import": ('import os\nos.mkdir("here")', "import inside a function is not in the language"),
    "dunders": (
        "classes = ().__class__.__base__.__subclasses__()\n"
        'wrap = [c for c in classes if c.__name__ == "_wrap_close"][0]\n'
        'wrap.__init__.__globals__["mkdir"]("here")',
        "must not begin with",
    ),
    "builtins": ('open("here", "w")', "unknown name 'open'"),
    "eval": ("""eval('__import__("os").mkdir("here")')""", "unknown name 'eval'"),
    "globals of the language": (
        'all_reduce.__globals__["__builtins__"]["open"]("here", "w")',
        "must not begin with",
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_reaching_the_machine(name: str, tmp_path: Path) -> None:
    """Cheat: gets at the file system while it is traced. Caught: no such name or attribute is reachable."""
    body, message = WRITES[name]
    executed(source(body), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["here"]
    assert_refused(source(body), message)


TAMPERS = {
    "assigning": (
        'all_reduce.__globals__["nodes"].make_scale = lambda x, ratio: x',
        "only names .* can be assigned to",
    ),
    "calling": ("io._recorder.__class__.issue.__globals__.clear()", "must not begin with an underscore"),
    "setattr": ('setattr(scale, "__code__", (lambda x, a, b=1: x).__code__)', "must not begin with"),
}


@pytest.mark.parametrize("name", TAMPERS)
def test_tampering_with_what_judges(name: str, tmp_path: Path) -> None:
    """Cheat: changes the recorder, and with it the reference. Caught: attributes end at p and io."""
    body, message = TAMPERS[name]
    assert executed(source(body), tmp_path).stdout.strip() != "started\nas before"
    assert_refused(source(body), message)


ENDLESS = {
    "while": ("while True:\n    pass", "while is not in the language"),
    "nested loops": (
        "for i in range(10 ** 6):\n    for j in range(10 ** 6):\n        k = i * j",
        "does not end within",
    ),
    "calls that double": (
        "def f(f, n):\n    return f(f, n - 1) + f(f, n - 1) if n else 1\nf(f, 33)",
        "does not end within",
    ),
    "a huge power": ("n = 9 ** 9 ** 9", "must stay below 2\\^63"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_never_ending(name: str, tmp_path: Path) -> None:
    """Cheat: keeps whoever traces it busy for ever. Caught: every step costs fuel, integers stay small."""
    body, message = ENDLESS[name]
    assert not ends(source(body), tmp_path)
    assert_refused(source(body), message)


BOMBS = {
    "a repeated list": ("table = [0] * 10 ** 10", "makes more than"),
    "a shift": ("n = 1 << 10 ** 11", "must stay below 2\\^63"),
    "a list that doubles": (
        "table = [0]\nfor _ in range(60):\n    table = table + table",
        "makes more than",
    ),
    "a text that doubles": ('text = "x"\nfor _ in range(60):\n    text += text', "makes more than"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_bombs(name: str, tmp_path: Path) -> None:
    """Cheat: takes all memory. Caught: what is made costs fuel before it is made."""
    body, message = BOMBS[name]
    assert "MemoryError" in executed(source(body), tmp_path).stderr
    assert_refused(source(body), message)
