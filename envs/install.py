"""Install what envs/<name>.txt pins into the environment whose Python runs this: python envs/install.py local|dev.

torch's CPU build is on an index of PyTorch's own. Where that has none to give (it cannot be reached and no such
wheel is at hand, or it has none for this Python), the common registry's torch of the same version is taken, after
its size was said: on Linux it brings CUDA's libraries along. Only the standard library is needed.
"""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ENVS = Path(__file__).resolve().parent
NOT_TO_BE_HAD = "No matching distribution found"
# What pip's report for torch 2.13.0 of the common registry adds up to on Linux x86-64, CUDA's libraries included.
REGISTRY_TORCH_GB = 2.7
UNREACHABLE = ("--retries", "1", "--timeout", "30")  # an index that does not answer must not take minutes

Pip = Callable[[Sequence[str]], tuple[int, str]]


def lines_of(name: str) -> list[str]:
    """The lines of envs/<name>.txt and of those that it names with -r, without comments."""
    found: list[str] = []
    for line in (ENVS / f"{name}.txt").read_text().splitlines():
        text = line.split(" #")[0].strip()
        if text.startswith("-r "):
            found += lines_of(text.removeprefix("-r ").removesuffix(".txt"))
        elif text and not text.startswith("#"):
            found.append(text)
    return found


def install(name: str, pip: Pip, say: Callable[[str], None], torch_here: str | None) -> None:
    """torch_here: the version that is installed already, if any. SystemExit with pip's words where pip fails."""
    lines = lines_of(name)
    (index,) = (line for line in lines if line.startswith("--extra-index-url"))
    (torch,) = (line for line in lines if line.startswith("torch=="))
    version = torch.removeprefix("torch==")
    plain = version.partition("+")[0]
    if torch_here == plain:
        torch = f"torch=={plain}"
    elif torch_here != version:
        # alone, so that nothing else is looked for on its index
        code, output = pip(["install", "--no-deps", *UNREACHABLE, *index.split(), torch])
        if code and NOT_TO_BE_HAD in output:
            say(
                f"torch {version} is not to be had here: PyTorch's own index gives none, and no such wheel is at "
                f"hand. Taking torch {plain} from the common registry instead. On Linux x86-64 that brings CUDA's "
                f"libraries along, which nothing here uses: {REGISTRY_TORCH_GB} GB to download, about twice as "
                "much on the disk. To avoid it, give pip a folder with the wheel that is missing (PIP_FIND_LINKS)."
            )
            code, torch = 0, f"torch=={plain}"
        _stop(code, output)
    # torch once more: it is there already, or is the registry's, and now what it needs comes along
    _stop(
        *pip(
            ["install", torch, *(line for line in lines if line != index and not line.startswith("torch=="))]
        )
    )
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
    if not re.fullmatch("local|dev", name):
        sys.exit(f"envs/install.py installs local or dev (got {name})")
    install(name, run_pip, lambda text: print(text, flush=True), torch_here())


def _stop(code: int, output: str) -> None:
    if code:
        sys.exit(f"{output}\npip could not install this: mend what it names, then set up again")


if __name__ == "__main__":
    main()
