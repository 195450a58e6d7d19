"""The figures of README.md, all from one archive that was verified: `make paper ARCHIVE=results/local.tar.zst`.

What stands between `<!-- paper: NAME -->` and `<!-- end of NAME -->` is written anew, and docs/report.png, the head
of the archive's page. All else in README.md is for people to write: no figure of a run stands there.
"""

import argparse
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
from rich.console import Console, RenderableType

from overlayccl_core.archiving import packing, said
from overlayccl_core.archiving.findings import Outcome
from overlayccl_core.archiving.said import Said
from overlayccl_core.archiving.verify import verify
from overlayccl_core.cli.deployed_table import MODELS_LEGEND, model_parts
from overlayccl_core.cli.render import machine_parts
from overlayccl_core.report.blocks import count, ms
from overlayccl_core.report.payback import cost_of
from overlayccl_core.report.tree import Tree
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.fidelity import FIDELITY

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "report.png"
WIDTH = 100
SEEN = (1280, 1500)  # pixels of the page that the picture shows
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def shown(tree: Tree) -> Worth:
    """The model that is shown: the most that a search gained over what needs none, or the first."""
    found = [w for w in tree.worths if w.deployed and w.deployed.needs_search and w.gain_over(w.rival)]
    return max(found, key=lambda w: gain_of(w), default=tree.worths[0])


def gain_of(worth: Worth) -> float:
    """Over the rival; 0 where there is none."""
    gain = worth.gain_over(worth.rival)
    return gain.value if gain else 0.0


def source(tree: Tree, about: Said, sha256: str) -> str:
    """Where the figures are from."""
    return (
        f"The figures on this page are of one run, `{about.command}`, of commit `{about.commit[:12]}`"
        f"{'' if about.clean else ' with changes'}, on {about.machine}; its archive has the sha256 `{sha256}`, and "
        "`make paper` writes them from it."
    )


def worth_of_one(tree: Tree) -> str:
    """What the run says of a model, as it is on the screen, and how to read it."""
    worth = shown(tree)
    mine, rival, developer = worth.deployed, worth.rival, worth.developer
    parts = [part for part in model_parts((worth,)) if part != MODELS_LEGEND]
    text = f"```\n{screen(*parts)}\n```\n"
    if mine is None or rival is None or developer is None:
        return text
    own = f"{ms(developer.step_us)} with the developer's own calls where these are fastest (M = "
    own += f"{developer.microbatches})"
    best = f"{ms(rival.step_us)} with the best that people write at the same or less memory ({rival.name})"
    return (
        f"{text}\nRead it as: a step of `{worth.model}` takes {own}, {best}, and {ms(mine.step_us)} with what is "
        "deployed. `M` is into how many microbatches a batch is split. Brackets are 95% intervals over launches "
        "that chose nothing."
    )


def outcomes(tree: Tree) -> str:
    """How many models got something that only a search found, and where torch's own or people's was as good."""
    worths = [w for w in tree.worths if w.deployed is not None]
    searched = [w.model for w in worths if w.deployed and w.deployed.needs_search]
    gains = {w.model: w.gain_over(w.rival) for w in worths}
    behind = [model for model, gain in gains.items() if gain and not (gain.beyond_noise and gain.value > 1)]
    of_all, found, not_faster = (WORDS[len(some)] for some in (worths, searched, behind))
    return (
        f"Of {of_all} models, {found} got something that only a search found{names(searched)}. "
        f"{not_faster.capitalize()} got nothing that is faster beyond noise than the best that needs no search"
        f"{names(behind)}; the run says that first."
    )


def names(models: list[str]) -> str:
    """` (a, b)`."""
    return f" ({', '.join(f'`{model}`' for model in models)})" if models else ""


def took(tree: Tree) -> str:
    """How long it takes."""
    cost = cost_of(tree)
    assert cost is not None
    cores = re.search(r"cores (\d+)", state_text(tree))
    return f"about {cost.seconds / 60:.0f} minutes on {count(int(cores[1]), 'core') if cores else 'that machine'}"


def state_text(tree: Tree) -> str:
    """The machine."""
    fidelity = tree.table(FIDELITY, "fidelity")
    return "" if fidelity is None else str(fidelity["fingerprint"][0])


def rightness(tree: Tree) -> str:
    """How right the cost model was."""
    frames = [f for f in (tree.table(FIDELITY, "fidelity"), tree.of_problems(FIDELITY)) if f is not None]
    return f"```\n{screen(*machine_parts(pl.concat(frames), None))}\n```"


def screen(*parts: RenderableType) -> str:
    """As a terminal shows it."""
    console = Console(width=WIDTH, file=io.StringIO(), force_terminal=False)
    for part in parts:
        console.print(part, highlight=False)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


BLOCKS: dict[str, Callable[[Tree], str]] = {
    "worth": worth_of_one,
    "outcomes": outcomes,
    "took": took,
    "rightness": rightness,
}


def written(text: str, blocks: dict[str, str]) -> str:
    """A page with other blocks. ValueError: it has one that is not known, or lacks one."""
    found = re.findall(r"<!-- paper: (\w+) -->", text)
    if sorted(found) != sorted(blocks):
        raise ValueError(
            f"the page has the blocks {', '.join(found) or 'none'}; there are {', '.join(blocks)}"
        )
    for name, block in blocks.items():
        pattern = rf"<!-- paper: {name} -->.*?<!-- end of {name} -->"
        between = "\n" if "\n" in block or name == "source" else ""
        new = f"<!-- paper: {name} -->{between}{block}{between}<!-- end of {name} -->"
        text = re.sub(pattern, lambda _: new, text, flags=re.S)  # noqa: B023  # used at once
    return text


def pictured(page: Path, picture: Path) -> None:
    """The head of a page as a picture. ValueError where there is no browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise ValueError("no Chromium is here to take the report's picture with: make browser")
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=9000")
    size = f"--window-size={SEEN[0]},{SEEN[1]}"
    command = [browser, *quiet, size, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Verify the archive, then write README.md and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args().archive
    if wrong := [one for one in verify(archive, 2, print) if one.outcome is Outcome.WRONG]:
        sys.exit("\n".join(f"{one.check.value}: {one.subject}: {one.message}" for one in wrong))
    with tempfile.TemporaryDirectory() as place:
        folder = packing.unpack(archive, Path(place))
        about = Said.loads((folder / said.NAME).read_bytes())
        tree = Tree(path=folder / "results" / about.tree)
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        blocks = {name: block(tree) for name, block in BLOCKS.items()} | {
            "source": source(tree, about, sha256)
        }
        text = written(README.read_text(), blocks)
        pictured(tree.path / "report.html", PICTURE)
    README.write_text(text)


if __name__ == "__main__":
    main()
