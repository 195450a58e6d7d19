"""`overlayccl tune`: find, prove and time the fastest way at your own sizes, and write it as one file.

The pipeline on one Case, in about two minutes: probes of this machine, a search, proofs, a bench, a choice, fresh
launches after it, a file. No model is trained: the bench alone chooses. The evidence has a results tree of its own.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from overlayccl_core.archiving.manifest import NAME
from overlayccl_core.archiving.unpacked import is_unpacked
from overlayccl_core.catalog import plug_in
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import print_line, say
from overlayccl_core.cli.strategy import entry_of_json
from overlayccl_core.cli.summary import show_run
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.presets import OwnPreset
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.tables.published import FOLDER
from overlayccl_core.tables.remake import profile_in_use

PRESET = "tune"  # in config/config.yaml: how much is measured
SECTIONS = {"probe", "fit", "shortlist", "bench", "confirm"}  # of the settings; all others are of models
FAILED, INTERRUPTED = 1, 130


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--problem", required=True, help="the Problem (`overlayccl problems` lists them)")
    parser.add_argument(
        "--case-json",
        required=True,
        action="append",
        metavar="JSON",
        help="your sizes: the fields of a Case as under `cases` in config/config.yaml, such as "
        '\'{"microbatches": 4, "layers": 8, "shape": [1, 64, 256]}\'; again for one more Case in the file',
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write, for `import` in your script (default: PROBLEM.py)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 with the file written, 1 after a failed run. ValueError: what is wrong, before anything starts."""
    where = context(arguments, preset=arguments.preset or PRESET)
    own, output = _preset(where, arguments.problem, arguments.case_json), _output(arguments)
    if is_unpacked(where.root):
        raise ValueError(
            f"this is an archive ({where.root / NAME}), and tune runs its Snakefile: tune in a project"
        )
    write_text(where.root / own.path, own.text)
    tree = where.root / own.path.parent
    end = tree / "summary.parquet"
    before = end.stat().st_mtime_ns if end.exists() else None
    if code := _snakemake(where, own.name):
        what = "interrupted" if code == INTERRUPTED else "the run failed"
        say(f"{what}; what was measured is kept, and this goes on from there: {_typed(arguments)}")
        return code
    if before == end.stat().st_mtime_ns:  # all was there: no rule has printed it
        show_run(context(arguments, preset=own.name), everything=False)
    write_text(output, (tree / FOLDER / f"{arguments.problem}.py").read_text())
    print_line(f"{output}: that file, for your script.")
    return 0


def _preset(where: Context, problem: str, texts: Sequence[str]) -> OwnPreset:
    """Return the preset of a run on these Cases alone, after a look at them."""
    plug_in(problem)
    try:
        mine = {
            "problems": [problem],
            "models": [],
            "cases": {problem: [entry_of_json(text) for text in texts]},
        }
        settings = Settings.from_data(where.settings.model_dump(mode="json") | mine)
        cases_of(settings, where.deployment, problem)
    except ValueError as error:
        raise ValueError(f"--case-json: {error}") from None
    fields = mine | settings.model_dump(mode="json", include=SECTIONS)
    return OwnPreset.told_apart(where.deployment.name, f"tune-{problem}", fields)


def _output(arguments: argparse.Namespace) -> Path:
    """Return the file to write. ValueError: it is there, cannot be there, or cannot be imported."""
    output: Path = arguments.output or Path(f"{arguments.problem}.py")
    if output.suffix != ".py" or not output.stem.isidentifier():
        raise ValueError(f"--output {output}: a script must be able to import it: name it like my_sums.py")
    if output.exists():
        raise ValueError(f"--output {output}: it is there already: name another file, or take it away first")
    if not output.absolute().parent.is_dir():
        raise ValueError(f"--output {output}: there is no folder {output.parent}: make it first")
    return output


def _snakemake(where: Context, preset: str) -> int:
    """Run all of a preset's tree, with its output on the terminal; return 0, FAILED or INTERRUPTED.

    Ctrl-C goes to Snakemake, too, and it takes its jobs down: so we wait for it.
    """
    profile = where.profile.name if where.profile else profile_in_use()
    config = (f"deployment={where.deployment.name}", f"preset={preset}")
    words = ["-P", "-m", "snakemake", "--profile", profile, "all", "--quiet", "host", "--config", *config]
    interrupted = False
    with subprocess.Popen([sys.executable, *words], cwd=where.root) as run:
        while run.returncode is None:
            try:
                run.wait()
            except KeyboardInterrupt:
                interrupted = True
    if interrupted:
        return INTERRUPTED
    return FAILED if run.returncode else 0


def _typed(arguments: argparse.Namespace) -> str:
    """Return the command as typed in a shell."""
    names = ("output", "profile", "deployment", "preset", "root")
    options = [("problem", arguments.problem), *(("case-json", text) for text in arguments.case_json)]
    options += [(name, value) for name in names if (value := getattr(arguments, name)) not in (None, Path())]
    words = (word for name, value in options for word in (f"--{name}", str(value)))
    return shlex.join(["overlayccl", "tune", *words])
