"""The figures of README.md and docs/figures.md: `make paper ARCHIVES="local.tar.zst two-tier.tar.zst" RUNS="TREE"`.

All archives are verified first; a wrong one writes nothing. The cost model's errors are ranges over the first
archive and the folders of other finished runs (RUNS): one run says little of the next.

BLOCKS fills the text between `<!-- paper: NAME ... -->` and `<!-- end -->`, of the first archive, and between
`<!-- paper@TREE: NAME ... -->` and `<!-- end -->`, of the archive of that tree. PICTURES are of pages of the
first one, in Chromium; a picture of a page that it lacks stays. Nothing is measured.
"""

import argparse
import hashlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from rich.console import Console, RenderableType

from overlayccl_core.archiving import packing
from overlayccl_core.archiving.jobs import JobRecord, jobs_of
from overlayccl_core.archiving.manifest import NAME, Manifest
from overlayccl_core.cli import verdicts, verify
from overlayccl_core.cli.deployed_table import model_parts
from overlayccl_core.cli.render import NOTHING, percent
from overlayccl_core.cli.summary import WIDEST, spent_text
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.report.blocks import count, mebibytes, ms, times, worded
from overlayccl_core.report.ranges import state
from overlayccl_core.report.sentences import KNOWN
from overlayccl_core.report.tree import Tree, trees_of
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.rule import targets
from overlayccl_core.tables.atomic import write_bytes, write_text
from overlayccl_core.tables.fidelity import FIDELITY

PAGES = Path("README.md"), Path("docs/figures.md")
PICTURES = {  # picture: the page, and its element at the top of the picture
    Path("docs/report.png"): ("report.html", "body"),
    Path("docs/curves.png"): ("longrun/curves.html", "figure"),
}
BLOCK = re.compile(r"(<!-- paper(?:@([\w-]+))?: (\w+)(?: ([\w-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH, HEIGHT = 1200, 900  # of the picture, in CSS pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An unpacked archive: its file, results tree, manifest and jobs.

    verified: the last line of `overlayccl verify`. others: finished runs beside it, for ranges.
    """

    file: Path
    tree: Tree
    said: Manifest
    jobs: Sequence[JobRecord]
    verified: str
    others: tuple[Tree, ...] = ()

    def worth(self, model: str) -> Worth:
        """Return a model's worth. ValueError if it was not trained."""
        found = next((one for one in self.tree.worths if one.model == model), None)
        if found is None:
            raise ValueError(f"{self.file}: no model {model}: {', '.join(w.model for w in self.tree.worths)}")
        return found


def opened(file: Path, place: Path, verified: str, others: Sequence[Path] = ()) -> Archive:
    """Unpack an archive below a folder. ValueError if it is none."""
    root = packing.unpack(file, place)
    said = Manifest.loads((root / NAME).read_bytes())
    files = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return Archive(
        file=file,
        tree=Tree(path=root / "results" / said.tree),
        said=said,
        jobs=jobs_of(root, files, said.measuring, said.nodes),
        verified=verified,
        others=trees_of(others),
    )


# ------------------------------------------------------------------------------------------------------ blocks
def source(archive: Archive, _: str) -> Iterator[str]:
    """Yield the archive, its commit and its machine."""
    size = archive.file.stat().st_size
    sha256 = hashlib.sha256(archive.file.read_bytes()).hexdigest()
    here = state(archive.tree)
    day = datetime.fromtimestamp(min(job.started for job in archive.jobs), UTC)
    clean = "" if archive.said.clean else ", with changes that were not committed"
    yield (
        f"All figures here are of one run: commit `{archive.said.commit[:12]}`{clean}, {day:%-d %B %Y}, "
        f"`{'`, `'.join(here.fingerprints)}`. Its archive has {bytes_text(size)} "
        f"({size:,} bytes), sha256 `{sha256}`; `overlayccl verify` says last: `{archive.verified}`."
    )
    if here.disturbed:
        yield f"Others took CPU time while it measured: {', '.join(here.disturbed)}."


def took(archive: Archive, _: str) -> Iterator[str]:
    """Yield the time with a job of `all` at work; other targets have folders of their names."""
    others = tuple(f"{archive.tree.path.name}/{target}/" for target in targets())
    jobs = [job for job in archive.jobs if not any(other in job.outputs[0] for other in others)]
    busy_s, until = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: job.started):
        busy_s += max(0.0, job.ended - max(job.started, until))
        until = max(until, job.ended)
    yield f"The run took {busy_s / 60:.1f} minutes for {len(jobs)} jobs."


def spent(archive: Archive, _: str) -> Iterator[str]:
    """Yield what the run cost, and when that is saved, as at the end of the run."""
    yield from spent_text(archive.tree)


def verdict(archive: Archive, _: str) -> Iterator[str]:
    """Yield the table at the end of a run."""
    yield from ("```", *printed(verdicts.of_models(archive.tree.worths)), "```")


def worth(archive: Archive, model: str) -> Iterator[str]:
    """Yield the run's sentences and table of a model, as on the screen."""
    yield from ("```", *screen(archive.worth(model)), "```")


def screen(of: Worth) -> Iterator[str]:
    """A model's part of `overlayccl summary`, without its legend."""
    *parts, _legend = model_parts((of,))
    yield from printed(parts)


def printed(parts: Iterable[RenderableType]) -> Iterator[str]:
    """Lines of a screen."""
    said = io.StringIO()
    console = Console(width=WIDEST, file=said, color_system=None, highlight=False)
    for part in parts:
        console.print(part, highlight=False)
    yield from (line.rstrip() for line in said.getvalue().strip("\n").splitlines())


def reading(archive: Archive, model: str) -> Iterator[str]:
    """Yield a reading of a model's table, in its own figures."""
    of = archive.worth(model)
    mine, rival, alone = of.deployed, of.rival, of.developer
    if mine is None or rival is None or alone is None:
        raise ValueError(f"{model}: was not timed beside developer and a rival: another one is an example")
    yield (
        f"Read it as: a step trains on a batch of texts, in `M` microbatches. The developer's own calls are "
        f"fastest at M = {alone.microbatches}: {ms(alone.step_us)}. The deployed way takes {ms(mine.step_us)}, the "
        f"best known way of the same or less memory {ms(rival.step_us)} ({rival.name}). Brackets "
        "are 95% intervals over launches."
    )


def row(archive: Archive, model: str) -> Iterator[str]:
    """Yield a row of `verdict` in words."""
    of = archive.worth(model)
    mine, over, beside = of.deployed, of.speedup_over(of.developer), of.speedup_over(of.rival)
    alone = of.needs_no_search(of.rival)
    if mine is None or of.instead or of.is_developers or over is None or not (alone or beside):
        raise ValueError(f"{model}: its choice does not stand, or has no ratio: another one is an example")
    kind = "a known way: people write it, too" if of.known else "a find of the search"
    yield (
        f"Row `{model}` in words: yes, use the file in `deploy/`; its calls are {kind}. At M = {mine.microbatches} "
        f"a step takes {ms(mine.step_us)} and a rank holds {mebibytes(mine.peak_memory_bytes)}. The developer's "
        f"calls, at their fastest M, take {over} times as long; the 95% interval is in brackets. "
        + (
            "The deployed calls need no search, and no other known way was measured faster (*no search needed*)."
            if alone
            else f"The best known way of the same or less memory takes {beside} times as long."
        )
    )


def outcomes(archive: Archive, _: str) -> Iterator[str]:
    """The outcome of every model, smallest gain first."""
    yield from _rows(
        (
            "model",
            "chosen: a step",
            "over developer at its fastest M",
            "over the best known way, at the same or less memory",
            "at any memory",
            "it is",
        ),
        (row for one in sorted(archive.tree.worths, key=_gain) if (row := _outcome(one)) is not None),
    )
    worths = archive.tree.worths
    found = [w for w in worths if w.deployed and not w.known and not w.instead]
    names = f" ({', '.join(w.model for w in found)})" if found else ""
    yield ""
    yield (
        f"In {len(found)} of {count(len(worths), 'model')} the search found the deployed way{names}; in the others "
        "it is a known way." + _not_faster(found)
    )


def _not_faster(found: Sequence[Worth]) -> str:
    """Name finds that are not faster here, and the reason for their deployment."""
    those = [
        f"{w.model} ({w.rival.name})"
        for w in found
        if w.rival and (speedup := w.speedup_over(w.rival)) and not speedup.beyond_noise
    ]
    if not those:
        return ""
    return (
        f" Of the former, not faster beyond noise than the best known way: {', '.join(those)}. Earlier launches "
        "chose the deployed ways; the launches of this table came after the choice."
    )


def _gain(of: Worth) -> float:
    speedup = of.speedup_over(of.rival)
    return speedup.value if speedup and not of.known else 0.0


def _outcome(of: Worth) -> tuple[str, ...] | None:
    mine = of.deployed
    if mine is None:
        return None
    developer = of.speedup_over(of.developer)
    step = f"{ms(mine.step_us)}, {mebibytes(mine.peak_memory_bytes)}"
    is_ = of.use or ("a known way" if of.known else "found by search")
    beside = (_beside(of, of.rival), NOTHING if of.fastest is of.rival else _beside(of, of.fastest))
    return (f"`{of.model}`", step, NOTHING if developer is None else times(developer), *beside, is_)


def _beside(of: Worth, other: SplitRow | None) -> str:
    """Return a gain over a known way. Between two of them a ratio stands only if it is below 1."""
    speedup = of.speedup_over(other)
    if speedup is None or other is None:
        return NOTHING
    return f"{KNOWN if of.needs_no_search(other) else worded(speedup)} ({other.name}, {other.figures})"


def rightness(archive: Archive, _: str) -> Iterator[str]:
    """Yield the cost model's errors: a row for each Problem, over the timed Cases of all runs."""
    header = ("Programs of", "Cases", "error", "repeat", "order", "regret", "beyond noise")
    trees = (archive.tree, *archive.others)
    held_out = [frame for tree in trees if (frame := tree.table(FIDELITY, "fidelity")) is not None]
    of_problems = [frame for tree in trees if (frame := tree.of_problems(FIDELITY)) is not None]
    frames = [("held-out mixed Programs", pl.concat(held_out))] if held_out else []
    if of_problems:
        named = pl.concat(of_problems).filter(pl.col("case").is_not_null())
        frames += [
            (f"`{problem}`", rows) for (problem,), rows in named.group_by("problem", maintain_order=True)
        ]
    yield from _rows(header, (_right(name, frame) for name, frame in frames))
    yield ""
    runs = count(len(trees), "run")
    yield f"The least and the largest of {runs}; beyond noise: of all Cases in all of them."


def _right(name: str, rows: pl.DataFrame) -> tuple[str, ...]:
    def span(column: str, text: Callable[[float], str]) -> str:
        known = rows[column].drop_nulls().to_list()
        return "..".join(dict.fromkeys((text(min(known)), text(max(known))))) if known else NOTHING

    ranked = rows.filter(pl.col("top1_regret").is_not_null())
    beyond = ranked.filter((pl.col("top1_regret") > 0) & ~pl.col("top1_within_noise"))
    return (
        name,
        str(rows.select("case", "direction").n_unique()) if rows["case"][0] else "",
        span("median_rel_error", percent),
        span("repeat_rel_error", percent),
        span("spearman", lambda value: f"{value:.2f}"),
        span("top1_regret", percent),
        f"{beyond.height} of {ranked.height}" if ranked.height else NOTHING,
    )


def _rows(header: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


BLOCKS: Mapping[str, Callable[[Archive, str], Iterator[str]]] = {
    block.__name__: block
    for block in (source, took, spent, verdict, row, worth, reading, outcomes, rightness)
}


def filled(text: str, archives: Sequence[Archive]) -> str:
    """Return a page with the figures of archives. ValueError for an unknown block, or a tree without an archive."""
    by_tree = {archive.tree.path.name: archive for archive in archives}

    def block(found: re.Match[str]) -> str:
        begin, tree, name, word, end = found.groups()
        if name not in BLOCKS:
            raise ValueError(f"there is no block {name!r}: choose among {', '.join(BLOCKS)}")
        if tree and tree not in by_tree:
            raise ValueError(f"a page has figures of the tree {tree}: name its archive, too")
        archive = by_tree[tree] if tree else archives[0]
        return begin + "\n".join(BLOCKS[name](archive, word or "")) + "\n" + end

    return BLOCK.sub(block, text)


def photograph(page: Path, picture: Path, top: str = "body") -> bool:
    """Write a picture of a page as Chromium shows it, from an element on; False without the page."""
    if not page.exists():
        return False
    from tests.report.browser import chromium  # needs what `make dev` installs

    with chromium() as browser:
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        tab.wait_for_load_state("networkidle")
        tab.evaluate("top => document.querySelector(top).scrollIntoView({behavior: 'instant'})", top)
        write_bytes(picture, tab.screenshot())
    return True


def main(arguments: Sequence[str]) -> None:
    """Write the blocks and the picture. ValueError for a wrong archive."""
    parser = argparse.ArgumentParser(prog="python -m docs.paper", description=__doc__)
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument(
        "--runs", nargs="*", type=Path, default=[], metavar="TREE", help="folders, for ranges"
    )
    told = parser.parse_args(arguments)
    files: Sequence[Path] = told.archives
    verified = []
    for file in files:
        wrong, last = verify.told(file, os.cpu_count() or 1)
        if wrong:
            raise ValueError(f"{last}: figures are of an archive in which nothing is")
        verified.append(last)
    with tempfile.TemporaryDirectory() as place:
        archives = [
            opened(file, Path(place, str(number)), last, () if number else told.runs)
            for number, (file, last) in enumerate(zip(files, verified, strict=True))
        ]
        texts = {page: filled(page.read_text(), archives) for page in PAGES}
        taken = [
            picture
            for picture, (page, top) in PICTURES.items()
            if photograph(archives[0].tree.path / page, picture, top)
        ]
        for page, text in texts.items():
            write_text(page, text)
    print(f"{', '.join(map(str, (*PAGES, *taken)))}: of {', '.join(map(str, files))}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"error: {error}")
