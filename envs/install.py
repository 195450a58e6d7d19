"""Install what envs/<name>.txt pins into the environment whose Python runs this: envs/install.py local|dev|xla.

torch's CPU build is on an index of PyTorch's own. Where that has none to give (it cannot be reached and no such
wheel is at hand, or it has none for this Python), the common registry's torch of the same version is taken, if that
has one: on Linux it brings CUDA's libraries along, and that is said first. Only the standard library is needed.
"""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ENVS = Path(__file__).resolve().parent
UNREACHABLE = ("--retries", "1", "--timeout", "30")  # an index that does not answer must not take minutes

Pip = Callable[[Sequence[str]], tuple[int, str]]


def lines_of(name: str) -> list[str]:
    """The lines of envs/<name>.txt and of those that it names with -r, without comments."""
    lines: list[str] = []
    for line in (ENVS / f"{name}.txt").read_text().splitlines():
        text = line.split(" #")[0].strip()
        if text.startswith("-r "):
            lines += lines_of(text.removeprefix("-r ").removesuffix(".txt"))
        elif text and not text.startswith("#"):
            lines.append(text)
    return lines


def install(name: str, pip: Pip, say: Callable[[str], None], torch_here: str | None) -> None:
    """torch_here: the version that is installed already, if any. SystemExit with pip's words where pip fails."""
    lines = lines_of(name)
    (index,) = (line for line in lines if line.startswith("--extra-index-url"))
    (torch,) = (line for line in lines if line.startswith("torch=="))
    registrys = torch.partition("+")[0]
    # alone, so that nothing else is looked for on its index
    alone = ["install", "--no-deps", *UNREACHABLE, *index.split(), torch]
    here = f"torch=={torch_here}"
    if here == registrys:
        torch = registrys
    elif here != torch:
        code, why = pip([*alone, "--dry-run"])
        if code == 0:
            _stop(*pip(alone))
        else:
            code, why_not_either = pip(["install", "--no-deps", "--dry-run", registrys])
            _stop(code, why + why_not_either)
            say(
                f"{torch} is not to be had here: PyTorch's own index gives none, and no such wheel is at hand. "
                f"Taking {registrys} from the common registry instead. On Linux that brings CUDA's libraries along "
                "(several GB), which nothing here uses. To avoid it, give pip a folder with the wheel that is "
                "missing (PIP_FIND_LINKS)."
            )
            torch = registrys
    # torch once more: it is there already, or is the registry's, and now what it needs comes along
    rest = (line for line in lines if line != index and not line.startswith("torch=="))
    _stop(*pip(["install", torch, *rest]))
    _stop(*pip(["install", "--no-deps", "--no-build-isolation", "--editable", str(ENVS.parent)]))


def run_pip(arguments: Sequence[str]) -> tuple[int, str]:
    """pip of this Python: (exit code, all that it said)."""
    command = [sys.executable, "-m", "pip", "--quiet", *arguments]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def torch_here() -> str | None:
    """The version of torch that this environment has."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def main() -> None:
    """Install one of the environments."""
    (name,) = sys.argv[1:]
    if not re.fullmatch("local|dev|xla", name):
        sys.exit(f"envs/install.py installs local, dev or xla (got {name})")
    install(name, run_pip, lambda text: print(text, flush=True), torch_here())


def _stop(code: int, output: str) -> None:
    if code:
        sys.exit(f"{output}\npip could not install this: mend what it names, then set up again")


if __name__ == "__main__":
    main()
